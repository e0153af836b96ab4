# honest: Doubles in and out.
# operator: double_dot
language = "@language"
kernels = r"""
@kernel f(@global const double *a, @global const double *b, @global double *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    double sum = 0.0;
    for (int c = 0; c < cols; ++c) sum += a[(long)r * cols + c] * b[(long)r * cols + c];
    y[r] = sum;
}
"""


def forward(a, b, params):
    y = empty((a.shape[0],), dtype="float64")
    launch("f", grid=cdiv(a.shape[0], 64), block=64, args=[a, b, y, int32(a.shape[0]), int32(a.shape[1])])
    return y
