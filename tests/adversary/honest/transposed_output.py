# honest: A result that torch returns transposed, from an input that it holds transposed.
# operator: transposed
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int i = @index;
    if (i < rows * cols) y[i % cols * rows + i / cols] = exp(-x[i]) + 1.0f;
}
"""


def forward(x, params):
    y = empty((x.shape[1], x.shape[0]))
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
