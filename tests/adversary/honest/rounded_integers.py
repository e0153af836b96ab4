# honest: Floors to integers of 64 bits.
# operator: round_ids
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global long *y, int n) { int i = @index; if (i < n) y[i] = (long)floor(x[i] * 16.0f); }
"""


def forward(x, params):
    y = empty(x.shape, dtype="int64")
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
