"""A whole plan: kernels, the forward that launches them, and comments that say which strategies shaped them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from optimizer.recipes.build import RESERVED
from optimizer.recipes.emit.expressions import origin_names
from optimizer.recipes.emit.kernel import Kernel, KernelEmitter, Notes, Stored, Target
from optimizer.recipes.emit.pointwise import PointwiseEmitter
from optimizer.recipes.emit.rows import RowsEmitter
from optimizer.recipes.emit.split import CombineEmitter, PartialEmitter
from optimizer.recipes.ir import Output, Program
from optimizer.recipes.partition import KernelSpec, Partition, partition
from optimizer.recipes.rewrite import rewrite
from optimizer.recipes.schedule import Schedule

EMITTERS: dict[str, type[KernelEmitter]] = {
    "pointwise": PointwiseEmitter,
    "rows": RowsEmitter,
    "partial": PartialEmitter,
    "combine": CombineEmitter,
}
MAX_NAME_PARTS = 4


def write_plan(
    program: Program, schedule: Schedule, language: str, device: dict[str, Any], notes: Sequence[str]
) -> str:
    """The plan's text. ``device`` needs ``compute_units``; ``notes`` become comments at the top."""
    program = rewrite(program, schedule, language)
    return _PlanWriter(program, schedule, _target(language, device)).write(notes)


def _target(language: str, device: dict[str, Any]) -> Target:
    units = device.get("compute_units") or (132 if language == "cuda" else 2)
    return Target(language, int(units), int(device.get("shared_bytes_per_block") or 48 * 1024))


class _PlanWriter:
    def __init__(self, program: Program, schedule: Schedule, target: Target) -> None:
        self.program = program
        self.schedule = schedule
        self.target = target
        self.partition: Partition = partition(program, schedule)
        self.notes = Notes()
        self.taken = {*RESERVED, *program.input_names}
        self.stored = self._stored_values()
        self.kernel_names: set[str] = set()

    def write(self, notes: Sequence[str]) -> str:
        kernels = [self._emit(spec) for spec in self.partition.kernels]
        helpers = list(dict.fromkeys(helper for kernel in kernels for helper in kernel.helpers))
        source = "\n\n".join([*helpers, *(kernel.text for kernel in kernels)])
        lines = [f"# {line}" for note in notes for line in note.splitlines()]
        lines += [f"# {line}" for line in self.notes.lines]
        if lines:
            lines.append("")
        lines += [f'language = "{self.target.language}"', "", 'kernels = r"""', source, '"""', "", ""]
        lines += self._forward(kernels)
        return "\n".join(lines) + "\n"

    # stored values

    def _stored_values(self) -> dict[int, Stored]:
        stored: dict[int, Stored] = {}
        for number, output in enumerate(self.program.outputs):
            if output.node in stored:
                stored[output.node].outputs.append(output)
                continue
            wish = "out" if len(self.program.outputs) == 1 else f"out{number}"
            stored[output.node] = Stored(
                output.node, self._variable(wish), output.axes, output.dtype, [output]
            )
        names = origin_names(self.program)
        for node_id in self.partition.intermediates:
            node = self.program.nodes[node_id]
            stored[node_id] = Stored(node_id, self._variable(f"{names[node_id]}_buf"), node.axes, node.dtype)
        return stored

    def _variable(self, wish: str) -> str:
        name = wish if wish not in self.taken else f"{wish}_values"
        count = 2
        base = name
        while name in self.taken:
            name, count = f"{base}{count}", count + 1
        self.taken.add(name)
        return name

    # kernels

    def _emit(self, spec: KernelSpec) -> Kernel:
        emitter = EMITTERS[spec.kind](
            self.program, self.schedule, spec, self.stored, self.target, self._kernel_name(spec), self.notes
        )
        return emitter.emit()

    def _kernel_name(self, spec: KernelSpec) -> str:
        needed = self.program.needed_for(spec.roots, stop=spec.loads)
        origins = [
            self.program.nodes[n].origin for n in needed if self.program.nodes[n].kind in ("op", "reduce")
        ]
        parts = list(dict.fromkeys(re.sub(r"_\d+$", "", origin) for origin in origins)) or ["copy"]
        if len(parts) > MAX_NAME_PARTS:
            parts = [*parts[: MAX_NAME_PARTS - 1], parts[-1]]
        name = re.sub(r"\W", "_", "_".join(parts)) + "_kernel"
        name = {
            "partial": name.replace("_kernel", "_partial"),
            "combine": name.replace("_kernel", "_combine"),
        }.get(spec.kind, name)
        base, count = name, 2
        while name in self.kernel_names:
            name, count = f"{base}{count}", count + 1
        self.kernel_names.add(name)
        return name

    # forward

    def _forward(self, kernels: Sequence[Kernel]) -> list[str]:
        parameters = ", ".join([*self.program.input_names, "params"])
        lines = [f"def forward({parameters}):"]
        for leaf in self.program.leaves.values():
            if leaf.kind == "tensor" and not leaf.contiguous:
                lines.append(f"    {leaf.expression} = contiguous({leaf.expression})")
        made: set[int] = set()
        for spec, kernel in zip(self.partition.kernels, kernels, strict=True):
            for item in kernel.scratch:
                dtype = "" if item.dtype == "float32" else f', dtype="{item.dtype}"'
                lines.append(f"    {item.variable} = empty(({item.count},){dtype})")
            for root in spec.roots:
                if root in self.stored and root not in made and spec.kind != "partial":
                    made.add(root)
                    lines.append(f"    {self.stored[root].variable} = {self._allocation(self.stored[root])}")
            if not self._is_empty(spec):
                lines += _launch(kernel)
        results = [self._result(output) for output in self.program.outputs]
        lines.append(f"    return {', '.join(results)}")
        return lines

    def _is_empty(self, spec: KernelSpec) -> bool:
        """A grid of no blocks cannot be launched; there is nothing to compute either."""
        if spec.kind == "partial":
            return self.program.size(self.program.nodes[spec.roots[0]].axes) == 0
        return all(self.program.size(self.stored[root].axes) == 0 for root in spec.roots)

    def _allocation(self, item: Stored) -> str:
        shape = (
            item.outputs[0].shape if item.outputs else tuple(self.program.sizes[axis] for axis in item.axes)
        )
        for leaf in self.program.leaves.values():
            if leaf.kind == "tensor" and leaf.shape == shape and leaf.dtype == item.dtype and leaf.shape:
                return f"empty_like({leaf.expression})"
        dtype = "" if item.dtype == "float32" else f', dtype="{item.dtype}"'
        return f"empty({_tuple(shape)}{dtype})"

    def _result(self, output: Output) -> str:
        item = self.stored[output.node]
        if output.shape == item.outputs[0].shape:
            return item.variable
        return f"reshape({item.variable}, {_tuple(output.shape)})"


def _tuple(shape: Sequence[int]) -> str:
    inner = ", ".join(str(size) for size in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _launch(kernel: Kernel) -> list[str]:
    head = f'    launch("{kernel.name}", grid={kernel.grid}, block={kernel.block},'
    args = f"           args=[{', '.join(kernel.args)}])"
    return [head, args]
