"""A whole plan: kernels, the forward that launches them, and comments that say which strategies shaped them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.recipes.build import RESERVED
from optimizer.recipes.emit.expressions import origin_names
from optimizer.recipes.emit.kernel import Kernel, KernelEmitter, Notes, Stored, Target
from optimizer.recipes.emit.pointwise import PointwiseEmitter
from optimizer.recipes.emit.rows import RowsEmitter
from optimizer.recipes.emit.split import CombineEmitter, PartialEmitter
from optimizer.recipes.ir import Output, Program
from optimizer.recipes.partition import KernelSpec, Partition, partition
from optimizer.recipes.precompute import prepared_values, split_off
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
    target = _target(language, device)
    shared = _Shared()
    keys = _prepared_keys(program) if schedule.precompute_parameters else {}
    prepare: _Body | None = None
    if keys:
        before, program = split_off(program, keys)
        plain = dataclasses.replace(Schedule(), fuse_all=True)
        prepare = _BodyWriter(before, plain, target, shared, "prepare").write()
        shared.notes.add(f"prepared once from the parameters: {', '.join(keys.values())}")
    body = _BodyWriter(rewrite(program, schedule, language), schedule, target, shared, "forward").write()
    return _assembled(program, keys, prepare, body, shared, language, notes)


def _prepared_keys(program: Program) -> dict[int, str]:
    taken = {leaf.name for leaf in program.leaves.values()}
    keys: dict[int, str] = {}
    for node_id in prepared_values(program):
        name = f"prepared_{program.nodes[node_id].origin}"
        count = 2
        while name in taken:
            name, count = f"prepared_{program.nodes[node_id].origin}_{count}", count + 1
        taken.add(name)
        keys[node_id] = name
    return keys


@dataclass(frozen=True)
class _Body:
    """One function of the plan: its lines without head and return, its kernels, and its results' names."""

    lines: list[str]
    kernels: list[Kernel]
    results: list[str]


class _Shared:
    """What the functions of one plan share: notes and kernel names."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.kernel_names: set[str] = set()


def _assembled(
    program: Program, keys: dict[int, str], prepare: _Body | None, body: _Body, shared: _Shared, language: str,
    notes: Sequence[str],
) -> str:  # fmt: skip
    kernels = [*(prepare.kernels if prepare else []), *body.kernels]
    helpers = list(dict.fromkeys(helper for kernel in kernels for helper in kernel.helpers))
    source = "\n\n".join([*helpers, *(kernel.text for kernel in kernels)])
    lines = [f"# {line}" for note in notes for line in note.splitlines()]
    lines += [f"# {line}" for line in shared.notes.lines]
    lines += [""] if lines else []
    lines += [f'language = "{language}"', "", 'kernels = r"""', source, '"""', "", ""]
    if prepare:
        used = "\n".join([*body.lines, *body.results])
        kept = [leaf.expression for leaf in program.leaves.values() if leaf.expression in used]
        kept = [expression for expression in kept if expression.startswith("params[")]
        entries = [f"{_key(text)}: {text}" for text in kept if _key(text)[1:-1] not in keys.values()]
        entries += [f'"{key}": {result}' for key, result in zip(keys.values(), prepare.results, strict=True)]
        lines += ["def prepare(params):", *prepare.lines, f"    return {{{', '.join(entries)}}}", "", ""]
    parameters = ", ".join([*program.input_names, "params"])
    lines += [f"def forward({parameters}):", *body.lines, f"    return {', '.join(body.results)}"]
    return "\n".join(lines) + "\n"


def _key(expression: str) -> str:
    """``"linear.bias"`` of ``params["linear.bias"]``."""
    return expression.removeprefix("params[").removesuffix("]")


def _target(language: str, device: dict[str, Any]) -> Target:
    units = device.get("compute_units") or (132 if language == "cuda" else 2)
    return Target(language, int(units), int(device.get("shared_bytes_per_block") or 48 * 1024))


class _BodyWriter:
    """Writes the statements of one function and the kernels that they launch."""

    def __init__(
        self, program: Program, schedule: Schedule, target: Target, shared: _Shared, function: str
    ) -> None:
        self.program = program
        self.schedule = schedule
        self.target = target
        self.partition: Partition = partition(program, schedule)
        self.shared = shared
        self.function = function
        self.taken = {*RESERVED, *program.input_names}
        self.stored = self._stored_values()

    def write(self) -> _Body:
        kernels = [self._emit(spec) for spec in self.partition.kernels]
        lines = self._statements(kernels)
        return _Body(lines, kernels, [self._result(output) for output in self.program.outputs])

    # stored values

    def _stored_values(self) -> dict[int, Stored]:
        stored: dict[int, Stored] = {}
        for number, output in enumerate(self.program.outputs):
            if output.node in stored:
                stored[output.node].outputs.append(output)
                continue
            wish = "out" if len(self.program.outputs) == 1 else f"out{number}"
            wish = output.name if self.function == "prepare" else wish
            stored[output.node] = Stored(
                output.node, self._variable(wish), output.axes, output.dtype, [output]
            )
        names = origin_names(self.program)
        for node_id in self.partition.intermediates:
            node = self.program.nodes[node_id]
            stored[node_id] = Stored(node_id, self._variable(f"{names[node_id]}_buf"), node.axes, node.dtype)
        return stored

    def _variable(self, wish: str) -> str:
        wish = re.sub(r"[\W_]+", "_", wish, flags=re.ASCII).strip("_")
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
            self.program,
            self.schedule,
            spec,
            self.stored,
            self.target,
            self._kernel_name(spec),
            self.shared.notes,
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
        name = re.sub(r"[\W_]+", "_", "_".join(parts), flags=re.ASCII).strip("_") + "_kernel"
        name = {
            "partial": name.replace("_kernel", "_partial"),
            "combine": name.replace("_kernel", "_combine"),
        }.get(spec.kind, name)
        base, count = name, 2
        while name in self.shared.kernel_names:
            name, count = f"{base}{count}", count + 1
        self.shared.kernel_names.add(name)
        return name

    # forward

    def _statements(self, kernels: Sequence[Kernel]) -> list[str]:
        lines: list[str] = []
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
            visible = leaf.kind == "tensor" and self.function == "forward"
            if visible and leaf.shape == shape and leaf.dtype == item.dtype and leaf.shape:
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
