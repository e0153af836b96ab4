# honest: Indices of 64 bits throughout.
# operator: row_sum
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, long rows, long cols) {
    long r = @index;
    if (r >= rows) return;
    float sum = 0.0f;
    for (long c = 0; c < cols; ++c) sum += x[r * cols + c];
    y[r] = sum;
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int64(x.shape[0]), int64(x.shape[1])])
    return y
