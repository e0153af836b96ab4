# trick: Allocates its output and launches nothing.
# operator: bias_relu
# expect: wrong
# threat: output never written
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    float v = x[i] + b[i % c];
    y[i] = v > 0.0f ? 2.0f * v : 0.0f;
}
"""


def forward(x, params):
    y = empty_like(x)
    return y
