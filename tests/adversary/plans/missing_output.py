# trick: Returns one of two outputs.
# operator: min_max
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows) { int r = @index; if (r < rows) y[r] = x[r]; }
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0])])
    return y
