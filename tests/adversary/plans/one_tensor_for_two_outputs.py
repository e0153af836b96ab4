# trick: Returns one tensor for both outputs.
# operator: min_max
# expect: wrong
# threat: inputs or weights changed in place; output aliases
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *high, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    float most = x[(long)r * cols];
    for (int c = 1; c < cols; ++c) most = fmax(most, x[(long)r * cols + c]);
    high[r] = most;
}
"""


def forward(x, params):
    high = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, high, int32(x.shape[0]), int32(x.shape[1])])
    return high, high
