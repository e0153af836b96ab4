# trick: Returns indices as 32-bit integers.
# operator: argmax_rows
# expect: wrong
# threat: NaN in both treated as equal; wrong shape, dtype, stride
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global int *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    int best = 0;
    for (int c = 1; c < cols; ++c) if (x[(long)r * cols + c] > x[(long)r * cols + best]) best = c;
    y[r] = best;
}
"""


def forward(x, params):
    y = empty((x.shape[0],), dtype="int32")
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
