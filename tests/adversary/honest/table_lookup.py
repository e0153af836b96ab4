# honest: Rows of a table by ids.
# operator: embedding
language = "@language"
kernels = r"""
@kernel f(@global const long *ids, @global const float *table, @global float *y, int n, int width) {
    int i = @index;
    if (i < n) y[i] = table[ids[i / width] * width + i % width];
}
"""


def forward(ids, params):
    table = params["table.weight"]
    y = empty((ids.shape[0], table.shape[1]))
    launch("f", grid=cdiv(y.numel, 64), block=64, args=[ids, table, y, int32(y.numel), int32(table.shape[1])])
    return y
