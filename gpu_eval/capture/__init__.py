"""From a PyTorch module to a versioned JSON graph of ATen operations.

Runs inside the judge's sandbox (it executes the operator's ``forward`` under torch's tracer). What comes out is
plain JSON, which the recipes read without importing torch.
"""

from gpu_eval.capture.flops import estimate_bytes, estimate_flops
from gpu_eval.capture.graph import GRAPH_VERSION, capture

__all__ = ["GRAPH_VERSION", "capture", "estimate_bytes", "estimate_flops"]
