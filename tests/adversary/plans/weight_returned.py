# trick: Returns a weight, stretched to nothing, as its output.
# operator: matvec
# expect: wrong|rejected
# threat: inputs or weights changed in place; output aliases
language = "@language"
kernels = r"""

"""


def forward(x, params):
    return reshape(slice(params["weight"], 1, 0, 1), (params["weight"].shape[0],))
