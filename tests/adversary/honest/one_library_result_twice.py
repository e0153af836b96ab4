# honest: Two outputs that are slices of one tensor.
# operator: min_max
language = "@language"
kernels = r"""

"""


def forward(x, params):
    both = lib.stack((lib.amin(x, -1), lib.amax(x, -1)))
    return reshape(slice(both, 0, 0, 1), (x.shape[0],)), reshape(slice(both, 0, 1, 2), (x.shape[0],))
