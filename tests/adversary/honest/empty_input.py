# honest: An input without elements.
# operator: join_empty
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global float *y, int n) { int i = @index; if (i < n) y[i] = 3.0f * x[i]; }
"""


def forward(x, nothing, params):
    y = empty((x.shape[0] + nothing.shape[0], x.shape[1]))
    launch("f", grid=cdiv(x.numel, 128), block=128, args=[x, y, int32(x.numel)])
    return y
