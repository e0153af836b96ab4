# trick: Handles whole tiles of 64 columns and drops the rest.
# operator: row_sum
# expect: wrong
# threat: right only for multiples of the tile
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    float sum = 0.0f;
    for (int c = 0; c < cols / 64 * 64; ++c) sum += in[c];
    y[r] = sum;
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
