"""Results as text for a terminal."""

from __future__ import annotations

from gpu_eval.operators.health import OperatorReport
from gpu_eval.results import DeviceFacts, Evaluation, Timing


def evaluation_text(evaluation: Evaluation) -> str:
    """A verdict in a few lines: what, how fast, and the failed check or the compiler's words."""
    lines = [f"verdict    {evaluation.verdict}"]
    if evaluation.untrusted:
        lines.append("untrusted  a foreign module: its own host code ran beside its kernels")
    if evaluation.message:
        lines.append(f"reason     {evaluation.message}")
    if evaluation.device:
        lines.append(f"device     {evaluation.device.name} ({evaluation.device.kind})")
    lines += time_lines(evaluation)
    if evaluation.library_calls:
        lines.append(f"library    {', '.join(evaluation.library_calls)}")
    passed = sum(check.passed for check in evaluation.checks)
    lines.append(f"checks     {passed} of {len(evaluation.checks)} passed")
    lines.append(f"sandbox    {evaluation.sandbox}")
    if evaluation.compiler_log and not evaluation.correct:
        lines += ["", evaluation.compiler_log.strip()]
    return "\n".join(lines)


def time_lines(evaluation: Evaluation) -> list[str]:
    """The lines that only a timed evaluation has."""
    if evaluation.candidate is None or evaluation.baseline is None:
        return []
    lines = [
        f"candidate  {timing_text(evaluation.candidate)}",
        f"eager      {timing_text(evaluation.baseline)}",
    ]
    if evaluation.compiled_baseline:
        lines.append(f"compiled   {timing_text(evaluation.compiled_baseline)}")
    lines.append(
        f"speed-up   {evaluation.speedup:.2f}x "
        f"({evaluation.speedup_low:.2f} to {evaluation.speedup_high:.2f})"
    )
    if evaluation.floor_us is not None:
        lines.append(f"floor      {evaluation.floor_us:.1f} us, bottleneck: {evaluation.bottleneck}")
    lines.append(f"achieved   {evaluation.achieved_gbs:.1f} GB/s, {evaluation.achieved_gflops:.1f} GFLOP/s")
    return lines


def timing_text(timing: Timing) -> str:
    """``12.3 us (11.9 to 13.0, 100 calls)``."""
    spread = f"{timing.p10_us:.1f} to {timing.p90_us:.1f}"
    return f"{timing.median_us:.1f} us ({spread}, {len(timing.samples_us)} calls)"


def health_text(report: OperatorReport) -> str:
    """The health report in lines, gates last."""
    health = report.health
    lines = [
        *(f"input      {entry['name']} {entry['shape']} {entry['dtype']}" for entry in health["inputs"]),
        *(f"output     {entry['shape']} {entry['dtype']}" for entry in health["outputs"]),
        f"parameters {health['params_count']} ({health['params_bytes']} bytes)",
        f"work       {health['flops'] / 1e6:.3g} MFLOP, {health['bytes'] / 1e6:.3g} MB",
        f"floor      {optional_us(health['floor_us'])}",
        f"eager      {optional_us(health['eager_us'])}",
        f"compiled   {optional_us(health['compile_us'])} {health['compile_note']}".rstrip(),
        f"graph      {'captured' if report.graph else report.graph_reason}",
    ]
    lines += [
        f"{'pass' if gate['passed'] else 'FAIL'}       {gate['name']}: {gate['sentence']}"
        for gate in health["gates"]
    ]
    return "\n".join(lines)


def optional_us(value: float | None) -> str:
    """A time, or a dash."""
    return "-" if value is None else f"{value:.1f} us"


def device_text(device: DeviceFacts) -> str:
    """One line a device."""
    peaks = f"{device.peak_bandwidth_gbs or 0:.0f} GB/s, {device.peak_fp32_gflops or 0:.0f} GFLOP/s"
    return f"{device.kind:8} {device.name}, {device.compute_units} units, {peaks}"
