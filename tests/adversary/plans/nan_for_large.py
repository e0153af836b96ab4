# trick: Overflows to infinity where values are large.
# operator: gelu
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    @global float *out = y + (long)r * cols;
    for (int c = 0; c < cols; ++c) {
        float v = in[c];
        out[c] = v * 0.5f * (1.0f + erf(v * 0.70710678f)) * (fabs(v) > 50.0f ? 1e38f * 1e38f : 1.0f);
    }
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
