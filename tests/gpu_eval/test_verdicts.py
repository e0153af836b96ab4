"""Each way a candidate can end, on real devices: tricks get their verdict, honest work passes."""

from __future__ import annotations

import pytest

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.results import Evaluation, Verdict
from tests.gpu_eval.candidates import HONEST, counting_plan, plan, plan_text

WRONG_BODIES = {
    "zeros": ("y[i] = 0.0f;", "Every element is 0"),
    "constant": ("y[i] = 1.5f;", "Every element is 1.5"),
    "copy of the input": ("y[i] = x[i];", 'It equals the input "x"'),
    "nothing": ("if (n < 0) y[i] = 0.0f;", "never written"),
    "half of the elements": (f"if (i < n / 2) {{ {HONEST} }}", "never written"),
    "bias ignored": ("float v = x[i]; y[i] = v > 0.0f ? 2.0f * v : 0.0f;", "wrong"),
    "right for positive sums only": ("y[i] = 2.0f * (x[i] + b[i % c]);", "wrong"),
    "reduced precision": (
        "float v = x[i] + b[i % c]; v = (float)((int)(v * 2048.0f)) / 2048.0f; y[i] = v > 0 ? 2 * v : 0;",
        "relative error",
    ),
    "NaN": ("y[i] = x[i] / (b[i % c] - b[i % c]);", "NaN or infinite"),
}


@pytest.fixture(scope="module")
def honest(session: EvaluationSession, device: str) -> Evaluation:
    """The honest kernel's evaluation, made once."""
    return session.evaluate(plan(device, HONEST), seed=7)


def test_honest_plan_is_correct(honest: Evaluation) -> None:
    """Protects honest work from a checker that refuses everything."""
    assert honest.verdict is Verdict.CORRECT, honest.message
    assert honest.message == ""
    assert all(check.passed for check in honest.checks)
    assert honest.candidate is not None
    assert len(honest.candidate.samples_us) >= 10
    assert honest.baseline is not None
    assert honest.speedup_low <= honest.speedup <= honest.speedup_high
    assert honest.faster == (honest.speedup_low > 1)
    assert honest.floor_us > 0
    assert honest.achieved_gbs > 0
    assert honest.bottleneck in ("memory", "compute", "launch", "latency")
    assert [kernel.name for kernel in honest.kernels] == ["f"]
    assert honest.seed == 7


def test_evaluation_round_trips_as_json(honest: Evaluation) -> None:
    """Protects storage: what is written can be read back as the same value."""
    assert Evaluation.from_json(honest.to_json()) == honest


def test_phases_are_announced_in_order(session: EvaluationSession, device: str) -> None:
    """Protects the live page, which lights the phases as they begin."""
    phases: list[str] = []
    evaluation = session.evaluate(plan(device, HONEST), on_phase=phases.append)
    assert phases == ["compile", "check", "time"]
    assert set(evaluation.phase_seconds) == set(phases)


@pytest.mark.parametrize("name", WRONG_BODIES)
def test_wrong_kernels_are_wrong(session: EvaluationSession, device: str, name: str) -> None:
    """Protects the verdict from kernels that do none, part, or a rough copy of the work."""
    body, words = WRONG_BODIES[name]
    evaluation = session.evaluate(plan(device, body))
    assert evaluation.verdict is Verdict.WRONG, evaluation.message
    assert words in evaluation.message
    assert evaluation.candidate is None
    assert evaluation.speedup is None


def test_missing_launch_is_never_written(session: EvaluationSession, device: str) -> None:
    """Protects against a plan that allocates its output and launches nothing."""
    forward = "def forward(x, params):\n    y = empty_like(x)\n    return y\n"
    evaluation = session.evaluate(plan(device, HONEST, forward))
    assert evaluation.verdict is Verdict.WRONG
    assert "never written" in evaluation.message


def test_compile_error_carries_the_log(session: EvaluationSession, device: str) -> None:
    """Protects the repair loop, which shows the compiler's words."""
    evaluation = session.evaluate(plan(device, "y[i] = undeclared_name;"))
    assert evaluation.verdict is Verdict.COMPILE_ERROR
    assert "undeclared_name" in evaluation.compiler_log
    assert "\x1b" not in evaluation.compiler_log


def test_forbidden_construct_names_line_and_column(session: EvaluationSession, device: str) -> None:
    """Protects the host: a plan is parsed, and what is not in the vocabulary is refused with its place."""
    forward = "def forward(x, params):\n    y = x.__class__\n    return y\n"
    text = plan(device, HONEST, forward)
    line = text.splitlines().index("    y = x.__class__") + 1
    evaluation = session.evaluate(text)
    assert evaluation.verdict is Verdict.REJECTED
    assert evaluation.message.startswith(f"plan:{line}:")


def test_other_language_is_rejected(session: EvaluationSession, device: str) -> None:
    """Protects against handing a plan to the wrong compiler."""
    other = "cuda" if device == "opencl" else "opencl"
    assert session.evaluate(plan(other, HONEST)).verdict is Verdict.REJECTED


def test_endless_loop_times_out(session: EvaluationSession, device: str) -> None:
    """Protects the worker: the deadline ends the runner, and the next candidate is judged as usual."""
    body = "volatile @global float *p = x; while (p[i] >= 0.0f) { } y[i] = 0.0f;"
    evaluation = session.evaluate(plan(device, body), seed=5)
    assert evaluation.verdict is Verdict.TIMEOUT
    assert session.evaluate(plan(device, HONEST)).verdict is Verdict.CORRECT


def test_wild_pointer_is_a_crash(session: EvaluationSession, device: str) -> None:
    """Protects the evaluator: native code that segfaults is a verdict, and the session lives on."""
    body = "volatile @global int *p = (volatile @global int *)(size_t)64; *p = 1; y[i] = 0.0f;"
    evaluation = session.evaluate(plan(device, body))
    assert evaluation.verdict is Verdict.CRASHED
    assert session.evaluate(plan(device, HONEST)).verdict is Verdict.CORRECT


def test_changed_input_is_wrong(session: EvaluationSession, device: str) -> None:
    """Protects the caller's tensors: a right output does not excuse a changed input."""
    evaluation = session.evaluate(plan(device, HONEST + " x[i] = 0.0f;"))
    assert evaluation.verdict is Verdict.WRONG
    assert 'input "x" was changed' in evaluation.message


def test_changed_weight_is_wrong(session: EvaluationSession, device: str) -> None:
    """Protects the weights likewise."""
    body = HONEST + " if (i == 0) ((@global float *)b)[3] = 9.0f;"
    evaluation = session.evaluate(plan(device, body))
    assert evaluation.verdict is Verdict.WRONG
    assert "changed in place" in evaluation.message


def test_write_past_the_end_is_wrong(session: EvaluationSession, device: str) -> None:
    """Protects against missing bounds checks: guard bytes lie around every tensor."""
    evaluation = session.evaluate(plan(device, HONEST + " if (i == n - 1) y[n + 3] = 1.0f;"))
    assert evaluation.verdict is Verdict.WRONG
    assert "outside" in evaluation.message


def test_second_answer_differs(session: EvaluationSession, device: str) -> None:
    """Protects against kernels that keep state between calls: the same input must repeat."""
    body = HONEST + " if (t[0] == 1) y[i] += 1.0f;"
    evaluation = session.evaluate(counting_plan(device, body))
    assert evaluation.verdict is Verdict.NONDETERMINISTIC, evaluation.message


def test_honest_while_checked_idle_while_timed(session: EvaluationSession, device: str) -> None:
    """Protects the clock: the timed calls are verified as well."""
    body = f"if (t[0] < 8) {{ {HONEST} }}"
    evaluation = session.evaluate(counting_plan(device, body))
    assert evaluation.verdict is Verdict.WRONG
    assert "never written" in evaluation.message


def test_wrong_shape_is_wrong(session: EvaluationSession, device: str) -> None:
    """Protects against outputs that broadcast into a pass: shape comes before values."""
    forward = "def forward(x, params):\n    y = empty((x.numel,))\n    return y\n"
    evaluation = session.evaluate(plan(device, HONEST, forward))
    assert evaluation.verdict is Verdict.WRONG
    assert "shape" in evaluation.message


def test_too_many_threads_is_a_launch_error(session: EvaluationSession, device: str) -> None:
    """Protects the difference between a refused launch and a crash."""
    source = """
@kernel f(@global float *x, @global float *y) { y[@index] = x[@index]; }
"""
    forward = """
def forward(x, params):
    y = empty_like(x)
    launch("f", grid=1, block=64, args=[x, y, int32(1)])
    return y
"""
    evaluation = session.evaluate(plan_text(device, source, forward))
    assert evaluation.verdict in (Verdict.LAUNCH_ERROR, Verdict.REJECTED)
