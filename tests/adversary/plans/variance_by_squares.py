# trick: Takes the mean of squares minus the squared mean, in single precision, whatever the offset.
# operator: layer_norm
# expect: wrong
# threat: sums a part and rescales
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *w, @global const float *b, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    @global float *out = y + (long)r * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int c = 0; c < cols; c += 2) { sum += in[c]; squares += in[c] * in[c]; }
    float mean = sum / (cols / 2), scale = 1.0f / sqrt(squares / (cols / 2) - mean * mean + 1e-5f);
    for (int c = 0; c < cols; ++c) out[c] = (in[c] - mean) * scale * w[c] + b[c];
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.shape[0], 64), block=64,
           args=[x, params["norm.weight"], params["norm.bias"], y, int32(x.shape[0]), int32(x.shape[1])])
    return y
