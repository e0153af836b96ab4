# trick: Leaves the clamp out, since uniform inputs rarely need it.
# operator: bias_relu
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    y[i] = 2.0f * (x[i] + b[i % c]);
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
