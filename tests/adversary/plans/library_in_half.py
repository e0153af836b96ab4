# trick: Casts to half for the library's product and back.
# operator: linear
# expect: wrong|rejected
# threat: silent precision downgrade
language = "@language"
kernels = r"""

"""


def forward(x, params):
    w = params["linear.weight"]
    h = lib.matmul(lib.mul(x, 1.0), transpose(w, 0, 1))
    s = lib.sum(h, dtype="float16")
    return lib.add(lib.round(h, decimals=2), params["linear.bias"])
