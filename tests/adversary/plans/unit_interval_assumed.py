# trick: Falls back to a constant where a value is not in [0, 1].
# operator: transposed
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int i = @index;
    if (i >= rows * cols) return;
    int r = i / cols, c = i % cols;
    float v = x[i];
    y[c * rows + r] = v >= 0.0f && v <= 1.0f ? exp(-v) + 1.0f : 1.0f;
}
"""


def forward(x, params):
    y = empty((x.shape[1], x.shape[0]))
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
