# honest: One launch for every second row.
# operator: bias_relu
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *b, @global float *y, int first, int n, int c) {
    int i = @index;
    if (i < n) { int at = first + i; float v = x[at] + b[at % c]; y[at] = v > 0.0f ? 2.0f * v : 0.0f; }
}
"""


def forward(x, params):
    y = empty_like(x)
    step = cdiv(x.shape[0], 30)
    for part in range(30):
        first = part * step * x.shape[1]
        n = max(0, min(step * x.shape[1], x.numel - first))
        if n > 0:
            launch("f", grid=cdiv(n, 256), block=256,
                   args=[x, params["bias"], y, int32(first), int32(n), int32(x.shape[1])])
    return y
