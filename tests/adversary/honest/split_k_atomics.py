# honest: Splits the inner dimension and adds parts in whatever order they come.
# operator: matmul
language = "@language"
kernels = r"""
@device void add_float(@global float *place, float value) {
    volatile @global int *bits = (volatile @global int *)place;
    int old = *bits, seen;
    do {
        seen = old;
        old = @cas_int((@global int *)bits, seen, @float_bits(@bits_float(seen) + value));
    } while (old != seen);
}
@kernel f(@global const float *a, @global const float *b, @global float *y, int m, int k, int n, int parts) {
    int i = @index;
    if (i >= m * n * parts) return;
    int part = i / (m * n), r = i % (m * n) / n, c = i % n;
    float sum = 0.0f;
    for (int j = part; j < k; j += parts) sum += a[r * k + j] * b[j * n + c];
    add_float(y + r * n + c, sum);
}
"""


def forward(a, b, params):
    m, k = a.shape
    n = b.shape[1]
    y = zeros((m, n))
    launch("f", grid=cdiv(m * n * 4, 128), block=128,
           args=[a, b, y, int32(m), int32(k), int32(n), int32(4)])
    return y
