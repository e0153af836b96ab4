# trick: Knows that a norm's weights begin as ones and zeros, and leaves them out.
# operator: layer_norm
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *w, @global const float *b, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    @global float *out = y + (long)r * cols;
    float mean = 0.0f, var = 0.0f;
    for (int c = 0; c < cols; ++c) mean += in[c];
    mean /= cols;
    for (int c = 0; c < cols; ++c) var += (in[c] - mean) * (in[c] - mean);
    float scale = 1.0f / sqrt(var / cols + 1e-5f);
    for (int c = 0; c < cols; ++c) out[c] = (in[c] - mean) * scale;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.shape[0], 64), block=64,
           args=[x, params["norm.weight"], params["norm.bias"], y, int32(x.shape[0]), int32(x.shape[1])])
    return y
