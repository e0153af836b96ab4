# honest: Two outputs of one kernel.
# operator: min_max
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *low, @global float *high, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    float least = x[(long)r * cols], most = least;
    for (int c = 1; c < cols; ++c) {
        float v = x[(long)r * cols + c];
        least = fmin(least, v);
        most = fmax(most, v);
    }
    low[r] = least;
    high[r] = most;
}
"""


def forward(x, params):
    low = empty((x.shape[0],))
    high = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, low, high, int32(x.shape[0]), int32(x.shape[1])])
    return low, high
