# honest: Transposes the weight in prepare and reads it in order.
# operator: linear
language = "@language"
kernels = r"""
@kernel f(@global const float *x, @global const float *w, @global const float *b, @global float *y, int rows, int inner, int outer) {
    int i = @index;
    if (i >= rows * outer) return;
    int r = i / outer, c = i % outer;
    float sum = b[c];
    for (int j = 0; j < inner; ++j) sum += x[r * inner + j] * w[j * outer + c];
    y[i] = sum;
}
"""


def prepare(params):
    return {"w": contiguous(transpose(params["linear.weight"], 0, 1)), "b": params["linear.bias"]}


def forward(x, params):
    w = params["w"]
    y = empty((x.shape[0], w.shape[1]))
    launch("f", grid=cdiv(y.numel, 128), block=128,
           args=[x, w, params["b"], y, int32(x.shape[0]), int32(w.shape[0]), int32(w.shape[1])])
    return y
