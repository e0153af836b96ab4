# honest: Half precision by pairs, arithmetic in half.
# operator: half_scale
# device: cuda
language = "cuda"
kernels = r"""
#include <cuda_fp16.h>
__global__ void f(const half2 *x, half2 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 v = __half22float2(x[i]);
    y[i] = __floats2half2_rn(fmaxf(v.x * 1.5f - 0.25f, 0.0f), fmaxf(v.y * 1.5f - 0.25f, 0.0f));
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 512), block=256, args=[x, y, int32(x.numel // 2)])
    return y
