# honest: A table in a __device__ variable that is only read.
# operator: gelu
# device: cuda
language = "cuda"
kernels = r"""
__device__ const float halves[2] = {0.5f, 0.70710678118f};
__device__ float ones[2] = {1.0f, 1.0f};
__global__ void f(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * halves[0] * (ones[i & 1] + erff(x[i] * halves[1]));
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
