# trick: Rounds only where values are large, as wide inputs are.
# operator: row_sum
# expect: wrong
# threat: silent precision downgrade
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    @global const float *in = x + (long)r * cols;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += fabs(in[c]) > 4.0f ? @bits_float(@float_bits(in[c]) & 0xffff0000) : in[c];
    y[r] = sum;
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
