# honest: Keeps eight partial sums in registers.
# operator: row_sum
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    float part[8];
    for (int k = 0; k < 8; ++k) part[k] = 0.0f;
    int c = 0;
    for (; c + 8 <= cols; c += 8) for (int k = 0; k < 8; ++k) part[k] += in[c + k];
    for (; c < cols; ++c) part[0] += in[c];
    y[r] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
