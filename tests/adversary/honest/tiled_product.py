# honest: A product by tiles in shared memory, with guards at the edges.
# operator: matmul
language = "@language"
kernels = r"""
#define T 8
@kernel f(@global const float *a, @global const float *b, @global float *y, int m, int k, int n, int across) {
    @local float p[T][T];
    @local float q[T][T];
    int tx = @thread % T, ty = @thread / T;
    int r = @group / across * T + ty, c = @group % across * T + tx;
    float sum = 0.0f;
    for (int j = 0; j < k; j += T) {
        p[ty][tx] = r < m && j + tx < k ? a[r * k + j + tx] : 0.0f;
        q[ty][tx] = j + ty < k && c < n ? b[(j + ty) * n + c] : 0.0f;
        @sync;
        for (int i = 0; i < T; ++i) sum += p[ty][i] * q[i][tx];
        @sync;
    }
    if (r < m && c < n) y[r * n + c] = sum;
}
"""


def forward(a, b, params):
    m, k = a.shape
    n = b.shape[1]
    y = empty((m, n))
    across = cdiv(n, 8)
    launch("f", grid=across * cdiv(m, 8), block=64,
           args=[a, b, y, int32(m), int32(k), int32(n), int32(across)])
    return y
