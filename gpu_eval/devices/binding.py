"""What both executors share: where each slot lies, and one report a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_eval.devices.base import Buffer, KernelFacts, LaunchError, Module
from gpu_eval.plans.program import Launch, Program, SlotKind, SlotView
from gpu_eval.results import KernelReport

GUARD = 256  # bytes before and after every slot that the runner allocates
GUARD_BYTE = 0xA5
POISON_BYTE = 0xFF


class Memory:
    """The memory of a program's slots: the caller's buffers, and guarded allocations for the runner's own."""

    def __init__(
        self,
        program: Program,
        given: Mapping[int, Buffer],
        alloc: Callable[[int], Buffer],
        shared: Memory | None,
    ) -> None:
        self.program = program
        self.pointers: dict[int, int] = {}
        self.guarded: dict[int, Buffer] = {} if shared is None else shared.guarded
        self.keep = (given, shared)
        for slot in program.slots:
            if slot.kind in (SlotKind.LOCAL, SlotKind.PREPARED):
                if slot.index not in self.guarded:
                    self.guarded[slot.index] = alloc(slot.spec.nbytes + 2 * GUARD)
                self.pointers[slot.index] = self.guarded[slot.index].pointer + GUARD
                continue
            if slot.index not in given:
                raise ValueError(f"no memory is given for {slot.kind.value} {slot.name}")
            if given[slot.index].nbytes < slot.spec.nbytes:
                raise ValueError(f"the memory given for {slot.kind.value} {slot.name} is too small")
            self.pointers[slot.index] = given[slot.index].pointer

    def pointer(self, view: SlotView) -> int:
        """The address of the view's first element."""
        return self.pointers[view.slot] + view.offset_bytes

    def fill_guards(self, write: Callable[[Buffer, bytes], None]) -> None:
        """Set every guard, and the slot between them, to `GUARD_BYTE`."""
        for buffer in self.guarded.values():
            edge = bytes([GUARD_BYTE]) * GUARD
            write(buffer, edge)
            write(Buffer(buffer.pointer + buffer.nbytes - GUARD, GUARD), edge)

    def poison(self, fill: Callable[[Buffer, int], None]) -> None:
        """Fill what `run` writes before it reads: all bits set is NaN in every floating format."""
        for index, buffer in self.guarded.items():
            slot = self.program.slots[index]
            if slot.kind is SlotKind.LOCAL and slot.spec.nbytes:
                fill(Buffer(buffer.pointer + GUARD, slot.spec.nbytes), POISON_BYTE)

    def broken_guards(self, read: Callable[[Buffer], bytes]) -> list[str]:
        """Names of the slots around which a guard byte changed."""
        broken = []
        edge = bytes([GUARD_BYTE]) * GUARD
        for index, buffer in self.guarded.items():
            ends = (buffer.pointer, buffer.pointer + buffer.nbytes - GUARD)
            if any(read(Buffer(end, GUARD)) != edge for end in ends):
                broken.append(self.program.slots[index].name)
        return broken


def kernel_of(module: Module | None, launch: Launch) -> KernelFacts:
    """The compiled kernel of a launch. Raises LaunchError for a name that was not compiled."""
    if module is None or launch.kernel not in module.kernels:
        raise LaunchError(f"kernel {launch.kernel!r} was not compiled")
    facts = module.kernels[launch.kernel]
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if facts.max_threads_per_block and threads > facts.max_threads_per_block:
        raise LaunchError(
            f"kernel {launch.kernel!r} can run {facts.max_threads_per_block} threads a block, not {threads}"
        )
    return facts


def kernel_reports(
    program: Program, module: Module | None, occupancy: Callable[[Launch], float | None]
) -> list[KernelReport]:
    """One report a launched kernel; grid and block are its first launch's."""
    launches: dict[str, list[Launch]] = {}
    for launch in program.launches():
        launches.setdefault(launch.kernel, []).append(launch)
    reports = []
    for name, group in launches.items():
        facts = kernel_of(module, group[0])
        reports.append(
            KernelReport(
                name=name,
                launches=len(group),
                grid=list(group[0].grid),
                block=list(group[0].block),
                registers=facts.registers,
                spill_bytes=facts.spill_bytes,
                shared_bytes=None if facts.shared_bytes is None else facts.shared_bytes + group[0].shared,
                occupancy=occupancy(group[0]),
            )
        )
    return reports
