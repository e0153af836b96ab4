# trick: Launches a kernel that copies the output onto itself.
# operator: softmax_rows
# expect: rejected
# threat: a kernel that does nothing beside library calls
language = "@language"
kernels = r"""
@kernel f(@global float *y, int n) { int i = @index; if (i < n) y[i] = y[i]; }
"""


def forward(x, params):
    y = lib.softmax(x, -1)
    launch("f", grid=cdiv(x.numel, 256), block=256, args=[y, int32(x.numel)])
    return y
