"""What torch.compile takes for an operator, kept on disk: it costs a minute to find out and changes with versions only.

Eager PyTorch is not kept: it is timed beside every candidate, in turns with it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass

from gpu_eval import timing
from gpu_eval.content_cache import ContentCache, cache_folder
from gpu_eval.results import DeviceFacts, EvaluationPolicy, Timing


@dataclass(frozen=True)
class BaselineKey:
    """All that the time depends on: operator, sizes, precision, protocol, device and versions."""

    operator_hash: str
    preset: str
    policy: EvaluationPolicy
    device: DeviceFacts
    versions: dict[str, str]

    def digest(self) -> str:
        """SHA-256 in hex."""
        policy = [self.policy.precision, self.policy.protocol]
        device = [self.device.key, self.device.architecture, self.device.compute_units]
        parts = [self.operator_hash, self.preset, policy, device, sorted(self.versions.items())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class CompiledBaselines:
    """Times of torch.compile by key."""

    def __init__(self, cache: ContentCache | None = None) -> None:
        self.cache = cache or ContentCache(cache_folder("baselines"))

    def get(self, key: BaselineKey) -> Timing | None:
        """The times, or None where they were not measured with these versions."""
        samples = (self.cache.get(key.digest()) or {}).get("samples_us")
        if not isinstance(samples, list) or not samples:
            return None
        if not all(isinstance(us, float) and math.isfinite(us) and us > 0 for us in samples):
            return None
        return timing.summarise(samples)

    def put(self, key: BaselineKey, measured: Timing) -> None:
        """Keep the samples of a measurement."""
        self.cache.put(key.digest(), {"samples_us": list(measured.samples_us)})
