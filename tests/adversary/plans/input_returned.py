# trick: Returns its input as it is.
# operator: gelu
# expect: wrong
# threat: zeros, a constant, the mean, or an input passes
language = "@language"
kernels = r"""

"""


def forward(x, params):
    return x
