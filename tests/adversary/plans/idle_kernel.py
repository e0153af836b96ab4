# trick: Launches a kernel that does nothing beside the library's call.
# operator: softmax_rows
# expect: rejected
# threat: a kernel that does nothing beside library calls
language = "@language"
kernels = r"""
@kernel f(@global float *t) { if (@index == 0) t[0] = 1.0f; }
"""


def forward(x, params):
    t = empty((1,))
    launch("f", grid=1, block=32, args=[t])
    return lib.softmax(x, -1)
