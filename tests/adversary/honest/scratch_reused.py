# honest: A scratch tensor that holds two things one after the other.
# operator: min_max
language = "@language"
kernels = r"""
@kernel low(@global const float *x, @global float *t, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    float v = x[(long)r * cols];
    for (int c = 1; c < cols; ++c) v = fmin(v, x[(long)r * cols + c]);
    t[r] = v;
}
@kernel high(@global const float *x, @global float *t, int rows, int cols) {
    int r = @index;
    if (r >= rows) return;
    float v = x[(long)r * cols];
    for (int c = 1; c < cols; ++c) v = fmax(v, x[(long)r * cols + c]);
    t[r] = v;
}
@kernel copy(@global const float *t, @global float *y, int n) { int i = @index; if (i < n) y[i] = t[i]; }
"""


def forward(x, params):
    rows, cols = x.shape
    t, a, b = empty((rows,)), empty((rows,)), empty((rows,))
    launch("low", grid=cdiv(rows, 64), block=64, args=[x, t, int32(rows), int32(cols)])
    launch("copy", grid=cdiv(rows, 64), block=64, args=[t, a, int32(rows)])
    launch("high", grid=cdiv(rows, 64), block=64, args=[x, t, int32(rows), int32(cols)])
    launch("copy", grid=cdiv(rows, 64), block=64, args=[t, b, int32(rows)])
    return a, b
