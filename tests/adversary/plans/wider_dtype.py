# trick: Returns doubles where floats are asked for.
# operator: row_sum
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global double *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    double sum = 0.0;
    for (int c = 0; c < cols; ++c) sum += x[(long)r * cols + c];
    y[r] = sum;
}
"""


def forward(x, params):
    y = empty((x.shape[0],), dtype="float64")
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
