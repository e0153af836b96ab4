"""Times of torch.compile outlive the session that measured them, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_eval import timing
from gpu_eval.baselines import BaselineKey, CompiledBaselines
from gpu_eval.content_cache import ContentCache
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.results import DeviceFacts, EvaluationPolicy, Precision, Protocol, Verdict
from tests.gpu_eval.candidates import HONEST, OPERATOR, plan
from tests.gpu_eval.conftest import SHORT

KEY = BaselineKey("hash", "cpu", EvaluationPolicy(), DeviceFacts("opencl", "a CPU", 2), {"torch": "2.13.0"})


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, operator_hash="other"),
        replace(KEY, preset=""),
        replace(KEY, policy=EvaluationPolicy(precision=Precision.TF32)),
        replace(KEY, policy=EvaluationPolicy(protocol=Protocol.KERNELBENCH)),
        replace(KEY, device=DeviceFacts("cuda", "a GPU", 132)),
        replace(KEY, versions={"torch": "2.14.0"}),
    ],
)
def test_a_time_counts_only_for_what_it_was_measured_with(tmp_path: Path, other: BaselineKey) -> None:
    """Another operator, size, precision, device or version never shows an old time."""
    kept = CompiledBaselines(ContentCache(tmp_path))
    kept.put(KEY, timing.summarise([3.0, 1.0, 2.0]))
    found = kept.get(KEY)
    assert found is not None
    assert found.samples_us == [3.0, 1.0, 2.0]
    assert kept.get(other) is None


@pytest.mark.parametrize("samples", [[], [0.0], [-1.0], ["1"], None, [float("inf")]])
def test_what_is_no_time_is_not_used(tmp_path: Path, samples: object) -> None:
    """A file that holds no times is a miss."""
    cache = ContentCache(tmp_path)
    cache.put(KEY.digest(), {"samples_us": samples})
    assert CompiledBaselines(cache).get(KEY) is None


def test_the_next_session_shows_the_time_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate's result shows torch.compile's time without a minute of compiling a session."""
    monkeypatch.setenv("HTAM_VAR_DIR", str(tmp_path))
    policy = EvaluationPolicy(timed_calls=10)
    with EvaluationSession(OPERATOR, device="opencl", policy=policy, limits=SHORT) as session:
        assert session.compiled is None
        health = session.inspect(compile_baseline=True).health
        assert health["compile_us"] is not None, health["compile_note"]
    with EvaluationSession(OPERATOR, device="opencl", policy=policy, limits=SHORT) as session:
        result = session.evaluate(plan("opencl", HONEST))
    assert result.verdict is Verdict.CORRECT
    assert result.compiled_baseline is not None
    assert result.compiled_baseline.median_us == health["compile_us"]
