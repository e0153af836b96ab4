# trick: Writes a pattern of the index.
# operator: bias_relu
# expect: wrong
# threat: output does not depend on the input
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    y[i] = (i * 7 % 13) * 0.1f;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
