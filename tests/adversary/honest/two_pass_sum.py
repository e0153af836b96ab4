# honest: Partial sums into a scratch buffer, then their sum.
# operator: row_sum
language = "@language"
kernels = r"""
@kernel parts(@global const float *x, @global float *p, int rows, int cols, int step) {
    int i = @index;
    if (i >= rows * step) return;
    float sum = 0.0f;
    for (int c = i % step; c < cols; c += step) sum += x[(long)(i / step) * cols + c];
    p[i] = sum;
}
@kernel join(@global const float *p, @global float *y, int rows, int step) {
    int r = @index;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < step; ++k) sum += p[r * step + k];
    y[r] = sum;
}
"""


def forward(x, params):
    step = 16
    p = empty((x.shape[0], step))
    y = empty((x.shape[0],))
    launch("parts", grid=cdiv(p.numel, 128), block=128,
           args=[x, p, int32(x.shape[0]), int32(x.shape[1]), int32(step)])
    launch("join", grid=cdiv(x.shape[0], 64), block=64, args=[p, y, int32(x.shape[0]), int32(step)])
    return y
