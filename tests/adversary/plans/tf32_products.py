# trick: Rounds the operands of a product to TF32 under strict fp32.
# operator: matmul
# expect: wrong
# threat: silent precision downgrade
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global float *y, int m, int k, int n) {
    int i = @index;
    if (i >= m * n) return;
    int r = i / n, c = i % n;
    float sum = 0.0f;
    for (int j = 0; j < k; ++j) {
        float p = @bits_float((@float_bits(a[r * k + j]) + 0x1000) & 0xffffe000);
        float q = @bits_float((@float_bits(b[j * n + c]) + 0x1000) & 0xffffe000);
        sum += p * q;
    }
    y[i] = sum;
}
"""


def forward(a, b, params):
    y = empty((a.shape[0], b.shape[1]))
    launch("f", grid=cdiv(y.numel, 128), block=128,
           args=[a, b, y, int32(a.shape[0]), int32(a.shape[1]), int32(b.shape[1])])
    return y
