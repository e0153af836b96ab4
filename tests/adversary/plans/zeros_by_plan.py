# trick: Returns zeros without a kernel.
# operator: mse_loss
# expect: wrong
# threat: zeros, a constant, the mean, or an input passes
language = "@language"
kernels = r"""

"""


def forward(a, b, params):
    return zeros(())
