# honest: A product by tiles of 5 by 7 outputs a thread.
# operator: matmul
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global float *y, int m, int k, int n, int across) {
    int i = @index;
    int r0 = i / across * 5, c0 = i % across * 7;
    if (r0 >= m) return;
    float sum[5][7];
    for (int r = 0; r < 5; ++r) for (int c = 0; c < 7; ++c) sum[r][c] = 0.0f;
    for (int j = 0; j < k; ++j)
        for (int r = 0; r < 5; ++r)
            for (int c = 0; c < 7; ++c)
                if (r0 + r < m && c0 + c < n) sum[r][c] += a[(r0 + r) * k + j] * b[j * n + c0 + c];
    for (int r = 0; r < 5; ++r)
        for (int c = 0; c < 7; ++c)
            if (r0 + r < m && c0 + c < n) y[(r0 + r) * n + c0 + c] = sum[r][c];
}
"""


def forward(a, b, params):
    m, k = a.shape
    n = b.shape[1]
    y = empty((m, n))
    across = cdiv(n, 7)
    launch("f", grid=cdiv(across * cdiv(m, 5), 64), block=64,
           args=[a, b, y, int32(m), int32(k), int32(n), int32(across)])
    return y
