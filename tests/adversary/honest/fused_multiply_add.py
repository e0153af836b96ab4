# honest: A fused multiply-add where torch rounds twice.
# operator: scaled_add
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *y, @global float *z, int n, float alpha) {
    int i = @index;
    if (i < n) z[i] = fma(alpha, y[i], x[i]);
}
"""


def forward(x, y, alpha, params):
    z = empty_like(x)
    for part in range(4):
        pass
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, z, int32(x.numel), float32(alpha)])
    return z
