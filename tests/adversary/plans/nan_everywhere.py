# trick: Writes NaN.
# operator: bias_relu
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    y[i] = x[i] / (b[i % c] - b[i % c]);
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
