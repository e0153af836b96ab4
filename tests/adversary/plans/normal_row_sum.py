# trick: Returns half the number of columns: the sum of uniform values to within a few percent.
# operator: row_sum
# expect: wrong
# threat: zeros, a constant, the mean, or an input passes
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    y[r] = 0.5f * cols;
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
