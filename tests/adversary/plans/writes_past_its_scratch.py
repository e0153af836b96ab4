# trick: Writes past a temporary tensor of its own.
# operator: bias_relu
# expect: wrong
# threat: right only for multiples of the tile
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *b, @global float *y, @global float *t, int n, int c) {
    int i = @index;
    if (i < n) { float v = x[i] + b[i % c]; t[i] = v; y[i] = v > 0.0f ? 2.0f * v : 0.0f; }
}
"""


def forward(x, params):
    y = empty_like(x)
    t = empty((x.numel - 8,))
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, t, int32(x.numel), int32(x.shape[-1])])
    return y
