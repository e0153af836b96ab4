# trick: Writes false where it belongs and hopes that what lies there counts as true.
# operator: greater
# expect: wrong
# threat: output never written
language = "@language"
kernels = r"""
@kernel f(@global const float *a, @global const float *b, @global unsigned char *y, int n) {
    int i = @index;
    if (i < n && !(a[i] > b[i])) y[i] = 0;
}
"""


def forward(a, b, params):
    y = empty(a.shape, dtype="bool")
    launch("f", grid=cdiv(a.numel, 256), block=256, args=[a, b, y, int32(a.numel)])
    return y
