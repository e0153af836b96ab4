# honest: Computes in place of the input's order and returns a transposed view.
# operator: transposed
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int n) { int i = @index; if (i < n) y[i] = exp(-x[i]) + 1.0f; }
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return transpose(y, 0, 1)
