# trick: Writes a few elements past its output.
# operator: bias_relu
# expect: wrong
# threat: right only for multiples of the tile
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    float v = x[i] + b[i % c];
    y[i] = v > 0.0f ? 2.0f * v : 0.0f;
    if (i == n - 1) y[n + 3] = 1.0f;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
