# honest: A number among the inputs, handed to the kernel.
# operator: scaled_add
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *y, @global float *z, int n, float alpha) {
    int i = @index;
    if (i < n) z[i] = x[i] + alpha * y[i];
}
"""


def forward(x, y, alpha, params):
    z = empty_like(x)
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, z, int32(x.numel), float32(alpha)])
    return z
