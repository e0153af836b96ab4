# honest: The library's product, as it is.
# operator: matmul
language = "@language"
kernels = r"""

"""


def forward(a, b, params):
    return lib.matmul(a, b)
