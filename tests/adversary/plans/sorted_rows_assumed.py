# trick: Takes a row's ends for its smallest and largest element.
# operator: min_max
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *low, @global float *high, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    low[r] = x[(long)r * cols];
    high[r] = x[(long)r * cols + cols - 1];
}
"""


def forward(x, params):
    low = empty((x.shape[0],))
    high = empty((x.shape[0],))
    launch("f", grid=cdiv(x.shape[0], 64), block=64, args=[x, low, high, int32(x.shape[0]), int32(x.shape[1])])
    return low, high
