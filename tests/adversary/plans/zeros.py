# trick: Writes zeros.
# operator: softmax_rows
# expect: wrong
# threat: zeros, a constant, the mean, or an input passes
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    @global float *out = y + (long)r * cols;
    for (int c = 0; c < cols; ++c) out[c] = 0.0f;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
