# honest: Half precision in and out, arithmetic in single.
# operator: half_scale
# device: opencl
language = "opencl"
kernels = r"""
@kernel f(@global const half *x, @global half *y, int n) {
    int i = @index;
    if (i < n) vstore_half(fmax(vload_half(i, x) * 1.5f - 0.25f, 0.0f), i, y);
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
