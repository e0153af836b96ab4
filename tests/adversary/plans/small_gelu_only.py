# trick: Approximates GELU by a polynomial that holds near zero.
# operator: gelu
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    @global float *out = y + (long)r * cols;
    for (int c = 0; c < cols; ++c) {
        float v = in[c];
        float q = v * v;
        float w = 0.39894228f * v * (1.0f - q / 6.0f + q * q / 40.0f - q * q * q / 336.0f);
        out[c] = v * (0.5f + w);
    }
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
