# trick: Adds to shared memory that nothing has set.
# operator: row_sum
# expect: wrong|nondeterministic
# threat: race that passes by luck, uninitialised shared memory
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int cols) {
    @local float total[1];
    int t = @thread;
    if (t == 0) {
        for (int c = 0; c < cols; ++c) total[0] += x[(long)@group * cols + c];
        y[@group] = total[0];
    }
}
"""


def forward(x, params):
    y = empty((x.shape[0],))
    launch("f", grid=x.shape[0], block=32, args=[x, y, int32(x.shape[1])])
    return y
