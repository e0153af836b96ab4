# honest: Few blocks that stride over all elements.
# operator: bias_relu
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *b, @global float *y, int n, int c) {
    for (int i = @index; i < n; i += @threads * @groups) {
        float v = x[i] + b[i % c];
        y[i] = fmax(v, 0.0f) * 2.0f;
    }
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=7, block=96,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
