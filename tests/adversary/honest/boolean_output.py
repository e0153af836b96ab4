# honest: Booleans, one byte each.
# operator: greater
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global unsigned char *y, int n) {
    int i = @index;
    if (i < n) y[i] = a[i] > b[i] ? 1 : 0;
}
"""


def forward(a, b, params):
    y = empty(a.shape, dtype="bool")
    launch("f", grid=cdiv(a.numel, 256), block=256, args=[a, b, y, int32(a.numel)])
    return y
