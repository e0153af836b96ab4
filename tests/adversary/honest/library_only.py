# honest: Calls the library and nothing else, where that is allowed.
# operator: softmax_rows
language = "@language"
kernels = r"""

"""


def forward(x, params):
    return lib.softmax(x, -1)
