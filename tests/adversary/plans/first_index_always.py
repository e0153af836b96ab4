# trick: Says that the first element is the largest.
# operator: argmax_rows
# expect: wrong
# threat: output does not depend on the input
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global long *y, int rows) { int r = @index; if (r < rows) y[r] = 0; }
"""


def forward(x, params):
    y = empty((x.shape[0],), dtype="int64")
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0])])
    return y
