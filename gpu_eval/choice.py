"""Which device and which preset a session uses."""

from __future__ import annotations

from gpu_eval.devices.probe import probe_devices
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.operators.source import OperatorSource
from gpu_eval.results import DeviceFacts

AUTO = "auto"
CPU_PRESET = "cpu"


def choose_device(kind: str) -> DeviceFacts:
    """Facts of the wanted device; ``auto`` takes CUDA before OpenCL. Raises UnusableInput."""
    devices = probe_devices()
    for facts in devices:
        if kind in (AUTO, facts.kind):
            return facts
    if kind == AUTO:
        raise EvaluatorFault("No usable device: neither a CUDA GPU nor an OpenCL CPU device was found.")
    present = ", ".join(facts.kind for facts in devices) or "none"
    raise UnusableInput(f'This machine has no usable "{kind}" device (usable: {present}).')


def choose_preset(source: OperatorSource, wanted: str, kind: str) -> str | None:
    """The preset to apply: by name, or for ``auto`` "cpu" on OpenCL. None: the file as it stands."""
    if wanted == AUTO:
        return CPU_PRESET if kind == "opencl" and CPU_PRESET in source.presets else None
    if wanted in ("", "none", "full"):
        return None
    if wanted not in source.presets:
        raise UnusableInput(f'{source.filename} has no preset "{wanted}".')
    return wanted
