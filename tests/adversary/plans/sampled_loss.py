# trick: Takes the mean over one element in four.
# operator: mse_loss
# expect: wrong
# threat: sums a part and rescales; truncated series
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global float *y, int n) {
    if (@index) return;
    float sum = 0.0f, count = 0.0f;
    for (int i = 0; i < n; i += 4) { sum += (a[i] - b[i]) * (a[i] - b[i]); count += 1.0f; }
    y[0] = sum / count;
}
"""


def forward(a, b, params):
    y = empty(())
    launch("f", grid=1, block=32, args=[a, b, y, int32(a.numel)])
    return y
