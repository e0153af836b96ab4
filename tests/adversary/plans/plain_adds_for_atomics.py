# trick: Adds to shared bins without atomics.
# operator: segment_sum
# expect: wrong|nondeterministic
# device: cuda
# threat: race that passes by luck, uninitialised shared memory
language = "cuda"
kernels = r"""
__global__ void f(const float *x, const long long *ids, float *y, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[ids[i / cols] * cols + i % cols] += x[i];
}
"""


def forward(x, ids, params):
    y = zeros((50, x.shape[1]))
    launch("f", grid=cdiv(x.numel, 256), block=256, args=[x, ids, y, int32(x.shape[0]), int32(x.shape[1])])
    return y
