# trick: Calls the library where the operator forbids it.
# operator: softmax_rows
# expect: rejected
# threat: a kernel that does nothing beside library calls
# policy: library=forbid
language = "@language"
kernels = r"""

"""


def forward(x, params):
    return lib.softmax(x, -1)
