# honest: Loads of four elements, with a scalar tail.
# operator: bias_relu
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index * 4;
    if (i + 3 < n) {
        float4 v = *(@global const float4 *)(x + i);
        y[i] = 2.0f * fmax(v.x + b[i % c], 0.0f);
        y[i + 1] = 2.0f * fmax(v.y + b[(i + 1) % c], 0.0f);
        y[i + 2] = 2.0f * fmax(v.z + b[(i + 2) % c], 0.0f);
        y[i + 3] = 2.0f * fmax(v.w + b[(i + 3) % c], 0.0f);
    } else {
        for (; i < n; ++i) y[i] = 2.0f * fmax(x[i] + b[i % c], 0.0f);
    }
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(cdiv(x.numel, 4), 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
