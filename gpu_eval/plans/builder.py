"""Collects slots and steps while a plan is interpreted, and keeps them within the limits."""

from __future__ import annotations

from gpu_eval.plans.interpreter import CallRefused
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.program import Allocate, Copy, Slot, SlotKind, SlotView, Step
from gpu_eval.plans.specs import TensorSpec
from gpu_eval.plans.views import whole


class ProgramBuilder:
    """Grows one `Program`. ``preparing`` says which of the two step lists and slot kinds new work goes to."""

    def __init__(self, language: str, limits: BindLimits) -> None:
        self.language = language
        self.limits = limits
        self.preparing = False
        self.slots: list[Slot] = []
        self.steps: list[Step] = []
        self.prepare_steps: list[Step] = []
        self.memory_bytes = 0

    def given(self, kind: SlotKind, spec: TensorSpec, name: str) -> SlotView:
        """A slot whose memory the judge provides."""
        slot = Slot(len(self.slots), kind, spec, name)
        self.slots.append(slot)
        return whole(slot.index, spec.shape, spec.dtype)

    def allocate(self, spec: TensorSpec, zero: bool, name: str, line: int) -> SlotView:
        """A slot of the plan's own, and its Allocate step."""
        self.memory_bytes += spec.nbytes
        if self.memory_bytes > self.limits.max_memory_bytes:
            wanted, allowed = self.memory_bytes, self.limits.max_memory_bytes
            raise CallRefused(f"the plan allocates {wanted} bytes; the limit is {allowed}")
        view = self.given(SlotKind.PREPARED if self.preparing else SlotKind.LOCAL, spec, name)
        self.add(Allocate(view.slot, spec, zero, line))
        return view

    def add(self, step: Step) -> None:
        steps = self.prepare_steps if self.preparing else self.steps
        if len(steps) >= self.limits.max_steps:
            raise CallRefused(f"the plan has more than {self.limits.max_steps} steps")
        steps.append(step)

    def output(self, view: SlotView, number: int, taken: set[int], line: int) -> SlotView:
        """A whole slot of kind OUTPUT that holds ``view``: its own slot where that can be, else a copy's."""
        slot = self.slots[view.slot]
        own = slot.kind is SlotKind.LOCAL and slot.index not in taken
        if not (own and view.contiguous and view.offset == 0 and view.numel == slot.spec.numel):
            copy = self.allocate(view.spec, False, "", line)
            self.add(Copy(view, copy, line))
            view, slot = copy, self.slots[copy.slot]
        self.slots[slot.index] = Slot(slot.index, SlotKind.OUTPUT, view.spec, f"output{number}")
        taken.add(slot.index)
        return view
