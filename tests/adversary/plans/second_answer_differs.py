# trick: Counts its calls and errs in the second.
# operator: bias_relu
# expect: nondeterministic|wrong|rejected
# threat: race that passes by luck, uninitialised shared memory
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *b, @global float *y, @global int *t, int n, int c) {
    int i = @index;
    if (i < n) { float v = x[i] + b[i % c]; y[i] = (v > 0.0f ? 2.0f * v : 0.0f) + (t[0] == 1 ? 1.0f : 0.0f); }
}
@kernel count(@global int *t) { if (@index == 0) t[0] = t[0] + 1; }
"""


def prepare(params):
    return {"bias": params["bias"], "count": zeros((16,), dtype="int32")}


def forward(x, params):
    y = empty_like(x)
    launch("f", grid=cdiv(x.numel, 256), block=256,
           args=[x, params["bias"], y, params["count"], int32(x.numel), int32(x.shape[-1])])
    launch("count", grid=1, block=32, args=[params["count"]])
    return y
