# trick: Writes the untransposed result into a tensor of the transposed shape.
# operator: transposed
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int n) { int i = @index; if (i < n) y[i] = exp(-x[i]) + 1.0f; }
"""


def forward(x, params):
    y = empty((x.shape[1], x.shape[0]))
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
