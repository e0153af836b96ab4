# trick: Returns what the loss of two uniform tensors is on average.
# operator: mse_loss
# expect: wrong
# threat: zeros, a constant, the mean, or an input passes
language = "@language"
kernels = r"""
@kernel f(@global float *y) { if (@index == 0) y[0] = 1.0f / 6.0f; }
"""


def forward(a, b, params):
    y = empty(())
    launch("f", grid=1, block=32, args=[y])
    return y
