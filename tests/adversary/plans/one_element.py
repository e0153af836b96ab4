# trick: Returns a single element that would broadcast.
# operator: row_sum
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y) { if (@index == 0) y[0] = x[0]; }
"""


def forward(x, params):
    y = empty((1,))
    launch("f", grid=1, block=32, args=[x, y])
    return y
