# honest: A block a row: shared memory and barriers.
# operator: softmax_rows
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int cols) {
    @local float part[64];
    int t = @thread;
    @global const float *in = x + (long)@group * cols;
    @global float *out = y + (long)@group * cols;
    float top = -3.0e38f;
    for (int c = t; c < cols; c += 64) top = fmax(top, in[c]);
    part[t] = top;
    @sync;
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) part[t] = fmax(part[t], part[t + step]);
        @sync;
    }
    top = part[0];
    @sync;
    float sum = 0.0f;
    for (int c = t; c < cols; c += 64) sum += exp(in[c] - top);
    part[t] = sum;
    @sync;
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) part[t] += part[t + step];
        @sync;
    }
    for (int c = t; c < cols; c += 64) out[c] = exp(in[c] - top) / part[0];
}
"""


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=x.shape[0], block=64, args=[x, y, int32(x.shape[1])])
    return y
