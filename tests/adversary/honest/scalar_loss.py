# honest: A scalar output, reduced in two launches.
# operator: mse_loss
language = "@language"
kernels = r"""
@kernel parts(@global const float *a, @global const float *b, @global float *p, int n, int count) {
    int t = @index;
    if (t >= count) return;
    float sum = 0.0f;
    for (int i = t; i < n; i += count) sum += (a[i] - b[i]) * (a[i] - b[i]);
    p[t] = sum;
}
@kernel join(@global const float *p, @global float *y, int count, float scale) {
    if (@index) return;
    float sum = 0.0f;
    for (int t = 0; t < count; ++t) sum += p[t];
    y[0] = sum * scale;
}
"""


def forward(a, b, params):
    count = 1024
    p = empty((count,))
    y = empty(())
    launch("parts", grid=cdiv(count, 64), block=64, args=[a, b, p, int32(a.numel), int32(count)])
    launch("join", grid=1, block=32, args=[p, y, int32(count), float32(1.0 / a.numel)])
    return y
