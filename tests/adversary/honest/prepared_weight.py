# honest: Packs the weights once, in prepare.
# operator: bias_relu
language = "@language"
kernels = r"""
@kernel pack(@global const float *b, @global float *d, int c) { int i = @index; if (i < c) d[i] = 2.0f * b[i]; }
@kernel f(@global const float *x, @global const float *d, @global float *y, int n, int c) {
    int i = @index;
    if (i < n) y[i] = fmax(2.0f * x[i] + d[i % c], 0.0f);
}
"""


def prepare(params):
    doubled = empty_like(params["bias"])
    launch("pack", grid=cdiv(doubled.numel, 64), block=64, args=[params["bias"], doubled, int32(doubled.numel)])
    return {"doubled": doubled}


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["doubled"], y, int32(x.numel), int32(x.shape[-1])])
    return y
