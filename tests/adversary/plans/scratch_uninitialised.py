# trick: Adds to a temporary tensor that it never clears.
# operator: row_sum
# expect: wrong|nondeterministic
# threat: race that passes by luck, uninitialised shared memory
language = "@language"
kernels = r"""
@kernel add(@global const float *x, @global float *t, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    for (int c = 0; c < cols; ++c) t[r] += x[(long)r * cols + c];
}
@kernel put(@global float *t, @global float *y, int rows) {
    int r = @index;
    if (r >= rows) return;
    y[r] = t[r];
    t[r] = 0.0f;
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    t = empty((x.shape[0],))
    launch("add", grid=cdiv(x.shape[0], 64), block=64, args=[x, t, int32(x.shape[0]), int32(x.shape[1])])
    launch("put", grid=cdiv(x.shape[0], 64), block=64, args=[t, y, int32(x.shape[0])])
    return y
