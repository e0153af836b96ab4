# honest: Comments and strings that hold banned words.
# operator: bias_relu
language = "@language"
kernels = r"""
@kernel f(@global float *x, @global const float *b, @global float *y, int n, int c) {
    int i = @index;
    if (i >= n) return;
    // no import os, no __class__, no eval(), no asm volatile, no #include "/etc/passwd",
    /* exec fork system */
    float v = x[i] + b[i % c];
    y[i] = v > 0.0f ? 2.0f * v : 0.0f;
}
"""


def forward(x, params):
    """Never calls eval, exec or __import__; while loops are not allowed."""
    # import os; x.__class__; lambda: 0
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, int32(x.numel), int32(x.shape[-1])])
    return y
