# honest: A table of constants that kernels read.
# operator: gelu
language = "@language"
kernels = r"""
@constant float coefficients[4] = {0.5f, 1.0f, 0.70710678118f, 0.0f};
@kernel f(@global const float *x, @global float *y, int n) {
    int i = @index;
    if (i >= n) return;
    float v = x[i];
    y[i] = v * coefficients[0] * (coefficients[1] + erf(v * coefficients[2])) + coefficients[3];
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
