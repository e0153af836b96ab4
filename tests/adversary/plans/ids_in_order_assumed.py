# trick: Takes row i of the table for the i-th id.
# operator: embedding
# expect: wrong
# threat: right only for the tested values
language = "@language"
kernels = r"""
@kernel f(@global const long *ids, @global const float *table, @global float *y, int n, int width, int words) {
    int i = @index;
    if (i >= n) return;
    y[i] = table[(i / width % words) * width + i % width];
}
"""


def forward(ids, params):
    table = params["table.weight"]
    y = empty((ids.shape[0], table.shape[1]))
    launch("f", grid=cdiv(y.numel, 64), block=64,
           args=[ids, table, y, int32(y.numel), int32(table.shape[1]), int32(table.shape[0])])
    return y
