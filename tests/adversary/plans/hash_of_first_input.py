# trick: Draws its answer from a hash of one element, so that it varies with the input.
# operator: bias_relu
# expect: wrong
# threat: output does not depend on the input
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    int h = @float_bits(x[0]) ^ (i * 40503);
    y[i] = (h & 0xffff) / 65536.0f;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
