# trick: Reduces in shared memory without a barrier.
# operator: row_sum
# expect: wrong|nondeterministic
# threat: race that passes by luck, uninitialised shared memory
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int cols) {
    @local float part[128];
    int t = @thread;
    float sum = 0.0f;
    for (int c = t; c < cols; c += 128) sum += x[(long)@group * cols + c];
    part[t] = sum;
    for (int step = 64; step > 0; step /= 2) if (t < step) part[t] += part[t + step];
    if (t == 0) y[@group] = part[0];
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=x.shape[0], block=128, args=[x, y, int32(x.shape[1])])
    return y
