# honest: A library product, a kernel for bias and rounding of its own.
# operator: linear
language = "@language"
kernels = r"""
@kernel f(@global const float *h, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i < n) y[i] = h[i] + b[i % c];
}
"""


def forward(x, params):
    h = lib.matmul(x, transpose(params["linear.weight"], 0, 1))
    y = empty_like(h)
    launch("f", grid=cdiv(h.numel, 128), block=128,
           args=[h, params["linear.bias"], y, int32(h.numel), int32(h.shape[-1])])
    return y
