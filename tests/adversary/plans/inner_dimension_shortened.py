# trick: Leaves the last products of each dot product out.
# operator: matmul
# expect: wrong
# threat: sums a part and rescales; truncated series
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global float *y, int m, int k, int n) {
    int i = @index;
    if (i >= m * n) return;
    int r = i / n, c = i % n;
    float sum = 0.0f;
    for (int j = 0; j < k - 1; ++j) sum += a[r * k + j] * b[j * n + c];
    y[i] = sum * k / (k - 1);
}
"""


def forward(a, b, params):
    y = empty((a.shape[0], b.shape[1]))
    launch("f", grid=cdiv(y.numel, 128), block=128,
           args=[a, b, y, int32(a.shape[0]), int32(a.shape[1]), int32(b.shape[1])])
    return y
