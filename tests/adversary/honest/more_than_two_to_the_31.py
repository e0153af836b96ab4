# honest: Indices of 64 bits over more than 2^31 elements.
# operator: long_not
# device: cuda
language = "cuda"
kernels = r"""
__global__ void f(const signed char *x, signed char *y, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = ~x[i];
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 1024), block=1024, args=[x, y, int64(x.numel)])
    return y
