"""Torch operations that a plan may call as ``lib.<op>``, with torch's argument order.

Only operations that compute a result from their arguments are here: none draws random numbers, writes in
place, reads a file or runs a callable. ``where`` is the dotted path under torch; ``out`` says that torch
writes into a given tensor, which saves a copy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LibraryOp:
    """``path`` under the torch module; ``out`` when it takes an ``out=`` tensor."""

    name: str
    path: str
    out: bool


def _words(text: str) -> list[str]:
    return text.split()


_WITH_OUT = _words("""
matmul mm bmm mv dot addmm addmv addbmm baddbmm addr outer
abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf erfc
sigmoid floor ceil round trunc sign square reciprocal
add sub mul div pow maximum minimum fmod remainder atan2 clamp clamp_min clamp_max lerp addcmul addcdiv
sum mean prod amax amin argmax argmin logsumexp cumsum cumprod all any
eq ne lt le gt ge logical_and logical_or logical_not
cat stack gather index_select take where tril triu
""")

_WITHOUT_OUT = _words("""
einsum tensordot kron softmax log_softmax var std var_mean std_mean max min topk sort median
flip roll repeat_interleave diag diagonal scatter scatter_add masked_fill nan_to_num logcumsumexp
""")

_FUNCTIONAL = _words("""
linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d
layer_norm group_norm batch_norm instance_norm rms_norm local_response_norm normalize
relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign softmin hardtanh hardsigmoid hardswish
hardshrink softshrink tanhshrink threshold logsigmoid glu prelu
pad interpolate pixel_shuffle pixel_unshuffle unfold fold embedding
mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss kl_div binary_cross_entropy
binary_cross_entropy_with_logits hinge_embedding_loss margin_ranking_loss triplet_margin_loss
cosine_embedding_loss cosine_similarity pairwise_distance scaled_dot_product_attention
""")

_LINALG = {"norm": "linalg.norm", "vector_norm": "linalg.vector_norm", "matrix_norm": "linalg.matrix_norm"}


def _table() -> dict[str, LibraryOp]:
    ops = [LibraryOp(name, name, True) for name in _WITH_OUT]
    ops += [LibraryOp(name, name, False) for name in _WITHOUT_OUT]
    ops += [LibraryOp(name, f"nn.functional.{name}", False) for name in _FUNCTIONAL]
    ops += [LibraryOp(name, path, False) for name, path in _LINALG.items()]
    return {op.name: op for op in ops}


LIBRARY: dict[str, LibraryOp] = _table()
