# trick: Takes the first writer's answer for the largest element.
# operator: min_max
# expect: wrong|nondeterministic
# device: cuda
# threat: race that passes by luck, uninitialised shared memory
language = "cuda"
kernels = r"""
__global__ void clear(float *low, float *high, int rows) { int r = blockIdx.x * blockDim.x + threadIdx.x; if (r < rows) { low[r] = 1e38f; high[r] = -1e38f; } }
__global__ void f(const float *x, float *low, float *high, int cols) {
    int r = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float v = x[(size_t)r * cols + c];
    if (v < low[r]) low[r] = v;
    if (v > high[r]) high[r] = v;
}
"""


def forward(x, params):
    low = empty((x.shape[0],))
    high = empty((x.shape[0],))
    launch("clear", grid=cdiv(x.shape[0], 64), block=64, args=[low, high, int32(x.shape[0])])
    launch("f", grid=(x.shape[0], cdiv(x.shape[1], 128)), block=128, args=[x, low, high, int32(x.shape[1])])
    return low, high
