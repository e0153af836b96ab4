# trick: Changes an id after using it.
# operator: embedding
# expect: wrong
# threat: inputs or weights changed in place; output aliases
language = "@language"
kernels = r"""
@kernel f(@global long *ids, @global const float *table, @global float *y, int count, int width) {
    int i = @index;
    if (i >= count) return;
    for (int c = 0; c < width; ++c) y[i * width + c] = table[ids[i] * width + c];
    if (i == count - 1) ids[i] = 0;
}
"""


def forward(ids, params):
    table = params["table.weight"]
    y = empty((ids.shape[0], table.shape[1]))
    launch("f", grid=cdiv(ids.numel, 64), block=64, args=[ids, table, y, int32(ids.numel), int32(table.shape[1])])
    return y
