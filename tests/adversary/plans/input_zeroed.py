# trick: Writes the right output and clears the input.
# operator: bias_relu
# expect: wrong
# threat: inputs or weights changed in place; output aliases
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    float v = x[i] + b[i % c];
    y[i] = v > 0.0f ? 2.0f * v : 0.0f;
    x[i] = 0.0f;
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
