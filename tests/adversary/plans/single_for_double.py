# trick: Adds doubles in single precision.
# operator: double_dot
# expect: wrong
# threat: silent precision downgrade
language = "@language"
kernels = r"""
@kernel f(@global const double *a, @global const double *b, @global double *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += (float)a[(long)r * cols + c] * (float)b[(long)r * cols + c];
    y[r] = sum;
}
"""


def forward(a, b, params):
    y = empty((a.shape[0],), dtype="float64")
    launch("f", grid=cdiv(a.shape[0], 64), block=64, args=[a, b, y, int32(a.shape[0]), int32(a.shape[1])])
    return y
