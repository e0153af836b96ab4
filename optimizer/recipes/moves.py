"""The moves that strategies of the memory name: each changes one knob of a schedule, or says why it cannot.

A move that would leave the kernels as they are is not applicable: `Move.apply` generates both plans and compares
them, so a search never spends a step on nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from optimizer.recipes.api import graph_key, plan_text, program_of
from optimizer.recipes.emit.kernel import INT32_SAFE
from optimizer.recipes.ir import Program
from optimizer.recipes.rewrite import moment_pairs, softmax_pairs
from optimizer.recipes.schedule import Schedule
from optimizer.recipes.unsupported import Unsupported


@dataclass(frozen=True)
class NotApplicable:
    """Why a move does not fit here, as a sentence."""

    reason: str


@dataclass(frozen=True)
class RecipeFacts:
    """What a move looks at: the captured graph and the device's facts (`DeviceFacts` as a dict)."""

    graph: dict[str, Any]
    device: dict[str, Any] = field(default_factory=dict)

    @property
    def language(self) -> str:
        return "cuda" if self.device.get("kind") == "cuda" else "opencl"

    @property
    def program(self) -> Program:
        return program_of(self.graph)


Change = Callable[..., Schedule | NotApplicable]


@dataclass(frozen=True)
class Move:
    """One kind of change. ``choices`` names its arguments with their allowed values, the first one the default.

    Calling a move binds arguments: ``MOVES["vector_width"](width=8).apply(schedule, facts)``.
    """

    name: str
    text: str
    change: Change
    choices: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def __call__(self, **arguments: Any) -> Move:
        return dataclasses.replace(self, arguments={**self.arguments, **arguments})

    def apply(self, schedule: Schedule, facts: RecipeFacts, **arguments: Any) -> Schedule | NotApplicable:
        """The changed schedule, or why this move does nothing here. Unknown arguments are a reason, too."""
        given = {**self.arguments, **arguments}
        wrong = self._wrong(given)
        if wrong:
            return NotApplicable(wrong)
        try:
            program = facts.program
        except Unsupported as error:
            return NotApplicable(f"No recipe covers this operator: {error.op} {error.reason}.")
        values = {name: given.get(name, choices[0]) for name, choices in self.choices.items()}
        if schedule.library and self.name != "library_reference":
            schedule = dataclasses.replace(schedule, library=False)
        changed = self.change(schedule, program, facts.language, **values)
        if isinstance(changed, NotApplicable):
            return changed
        try:
            differ = _kernels_differ(facts, schedule, changed)
        except Unsupported as error:
            return NotApplicable(f"{error.op} {error.reason}.")
        if not differ:
            return NotApplicable("It would leave the kernels as they are.")
        return changed

    def describe(self) -> str:
        """One sentence on what the move does, with its arguments."""
        bound = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.text}{f' ({bound})' if bound else ''}"

    def variants(self) -> list[Move]:
        """The move bound to each of its argument values."""
        if not self.choices:
            return [self]
        ((name, values),) = self.choices.items()
        return [self(**{name: value}) for value in values]

    def _wrong(self, given: dict[str, Any]) -> str:
        for name, value in given.items():
            if name not in self.choices:
                return f"{self.name} has no argument {name!r}."
            if value not in self.choices[name]:
                allowed = ", ".join(str(choice) for choice in self.choices[name])
                return f"{self.name}: {name} is one of {allowed}, not {value!r}."
        return ""


def _kernels_differ(facts: RecipeFacts, before: Schedule, after: Schedule) -> bool:
    if before == after:
        return False
    key, language, units = graph_key(facts.graph), facts.language, facts.device.get("compute_units") or 0
    return _essence(key, before, language, units) != _essence(key, after, language, units)


@lru_cache(maxsize=1024)
def _essence(key: str, schedule: Schedule, language: str, units: int) -> str:
    """The plan without comments: what the device is asked to do."""
    text = plan_text(key, schedule, language, units)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith(("//", "# ")))


def apply_recipe(recipe: dict[str, Any], schedule: Schedule, facts: RecipeFacts) -> Schedule | NotApplicable:
    """Carry out ``{"move": NAME, ...arguments}`` as the memory's strategies write it."""
    move = MOVES.get(recipe.get("move", ""))
    if move is None:
        return NotApplicable(f"There is no move {recipe.get('move')!r}.")
    return move.apply(schedule, facts, **{name: value for name, value in recipe.items() if name != "move"})


def applicable_moves(schedule: Schedule, facts: RecipeFacts) -> list[tuple[Move, Schedule]]:
    """Every move (with each of its argument values) that would change the kernels, and the schedule it leads to."""
    found = []
    for move in MOVES.values():
        for variant in move.variants():
            changed = variant.apply(schedule, facts)
            if isinstance(changed, Schedule):
                found.append((variant, changed))
    return found


# the changes


def _set(**values: Any) -> Change:
    def change(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
        return _changed(schedule, **values)

    return change


def _changed(schedule: Schedule, **values: Any) -> Schedule | NotApplicable:
    after = dataclasses.replace(schedule, **values)
    return NotApplicable("The schedule has this already.") if after == schedule else after


def _needs_reduction(change: Change) -> Change:
    def checked(
        schedule: Schedule, program: Program, language: str, **arguments: Any
    ) -> Schedule | NotApplicable:
        if not program.has_reduction:
            return NotApplicable("There is no reduction.")
        return change(schedule, program, language, **arguments)

    return checked


def _gpu_only(reason: str, change: Change) -> Change:
    def checked(
        schedule: Schedule, program: Program, language: str, **arguments: Any
    ) -> Schedule | NotApplicable:
        return (
            NotApplicable(reason)
            if language == "opencl"
            else change(schedule, program, language, **arguments)
        )

    return checked


def _cpu_only(reason: str, change: Change) -> Change:
    def checked(
        schedule: Schedule, program: Program, language: str, **arguments: Any
    ) -> Schedule | NotApplicable:
        return (
            NotApplicable(reason) if language == "cuda" else change(schedule, program, language, **arguments)
        )

    return checked


def _vector_width(
    schedule: Schedule, program: Program, language: str, width: int
) -> Schedule | NotApplicable:
    if language == "cuda" and width == 16:
        return NotApplicable(
            "A thread moves 16 bytes at once; more than two such accesses in a row only cost registers."
        )
    return _changed(schedule, vector_width=width)


def _items(schedule: Schedule, program: Program, language: str, items: int) -> Schedule | NotApplicable:
    return _changed(schedule, items_per_thread=items)


def _block_size(
    schedule: Schedule, program: Program, language: str, threads: int
) -> Schedule | NotApplicable:
    return _changed(schedule, block_size=threads)


def _waves(schedule: Schedule, program: Program, language: str, per_unit: int) -> Schedule | NotApplicable:
    if not (schedule.grid_stride or schedule.hoist_broadcast):
        return NotApplicable("The grid follows the data; only a fixed grid has a number of waves.")
    return _changed(schedule, waves=per_unit)


def _rows_per_block(
    schedule: Schedule, program: Program, language: str, rows: int
) -> Schedule | NotApplicable:
    if schedule.row_strategy not in ("warp", "block"):
        return NotApplicable("Blocks hold as many rows as threads while each thread has a row of its own.")
    return _changed(schedule, rows_per_block=rows)


def _strategy(name: str) -> Change:
    def change(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
        return _changed(schedule, row_strategy=name, rows_per_block=1)

    return _needs_reduction(change)


def _split(schedule: Schedule, program: Program, language: str, parts: int) -> Schedule | NotApplicable:
    if program.row_length < 4 * parts:
        return NotApplicable(f"Rows of {program.row_length} elements are too short for {parts} pieces.")
    return _changed(schedule, row_strategy="split", split_parts=parts)


def _storage(where: str) -> Change:
    def change(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
        if language == "opencl" and where == "registers":
            return NotApplicable(
                "A CPU has too few vector registers for a row; keep it in local memory instead."
            )
        return _changed(schedule, row_storage=where)

    return _needs_reduction(change)


def _online(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
    if not softmax_pairs(program):
        return NotApplicable("No maximum is followed by a sum of exponentials relative to it.")
    return _changed(schedule, online_softmax=True)


def _moments(how: str) -> Change:
    def change(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
        if not moment_pairs(program):
            return NotApplicable("No mean is followed by a sum of squares around it.")
        return _changed(schedule, moments=how)

    return _needs_reduction(change)


def _unroll(schedule: Schedule, program: Program, language: str, factor: int) -> Schedule | NotApplicable:
    return _changed(schedule, unroll=factor)


def _fuse_row(flag: str) -> Change:
    return _needs_reduction(_set(**{flag: True}))


def _index_32bit(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
    largest = max(program.size([*program.rows, *program.cols]), 1)
    if largest >= INT32_SAFE:
        return NotApplicable(f"{largest} elements need 64-bit indices.")
    return _changed(schedule, index_32bit=True)


def _precompute(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
    return _changed(schedule, precompute_parameters=True)


def _library(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
    return _changed(schedule, library=True)


def _hoist(schedule: Schedule, program: Program, language: str) -> Schedule | NotApplicable:
    return _changed(schedule, hoist_broadcast=True)


def _table() -> dict[str, Move]:
    widths, counts = (4, 2, 8, 16), (4, 2, 8)
    moves = [
        Move("fuse_pointwise", "Chains of point-wise operations share a kernel", _set(fuse_pointwise=True)),
        Move("fuse_prologue", "Point-wise producers move into the reductions that read them",
             _fuse_row("fuse_prologue")),
        Move("fuse_epilogue", "Point-wise consumers move into the kernel that ends a reduction",
             _fuse_row("fuse_epilogue")),
        Move("fuse_all", "One kernel computes everything", _set(fuse_all=True)),
        Move("vector_width", "One access moves several neighbouring elements", _vector_width, {"width": widths}),
        Move("items_per_thread", "A thread handles several vectors", _items, {"items": counts}),
        Move("block_size", "Threads of a block", _block_size, {"threads": (256, 32, 64, 128, 512, 1024)}),
        Move("grid_stride", "A fixed grid walks over the data", _set(grid_stride=True)),
        Move("waves", "Blocks of a fixed grid for each compute unit", _waves, {"per_unit": counts}),
        Move("row_per_warp", "A warp reduces a row (on a CPU: a batch of rows a work-group)", _strategy("warp")),
        Move("row_per_block", "A block reduces a row (on a CPU: a work-group of one work-item)", _strategy("block")),
        Move("rows_per_block", "A block takes several rows", _rows_per_block, {"rows": counts}),
        Move("row_in_registers", "A row stays in registers between passes", _storage("registers")),
        Move("row_in_shared", "A row stays in shared (local) memory between passes", _storage("shared")),
        Move("warp_shuffle", "Threads combine partial results by shuffles", _gpu_only(
            "One work-item reduces a row; there is nothing to shuffle.", _needs_reduction(_set(warp_shuffle=True)))),
        Move("shared_tree", "Threads combine partial results by a tree in shared memory", _gpu_only(
            "One work-item reduces a row; there is nothing to combine.", _needs_reduction(_set(warp_shuffle=False)))),
        Move("online_softmax", "Maximum and sum of exponentials in one pass", _needs_reduction(_online)),
        Move("single_pass_moments", "Sum and sum of squares in one pass, around the row's first value",
             _moments("single_pass")),
        Move("welford", "Mean and variance in one pass by Welford's update", _moments("welford")),
        Move("split_rows", "Pieces of a row in parallel, combined by a second kernel", _needs_reduction(_split),
             {"parts": (8, 2, 4, 16, 32, 64, 128)}),
        Move("streaming_loads", "Loads that nobody repeats do not stay in the cache", _gpu_only(
            "OpenCL on a CPU has no such load.", _set(streaming_loads=True))),
        Move("streaming_stores", "Stores bypass the cache", _set(streaming_stores=True)),
        Move("read_only_loads", "Operands are promised not to overlap and read through the read-only path",
             _set(read_only_loads=True)),
        Move("fast_math", "Hardware approximations and short forms of exp, log, tanh, erf", _set(fast_math=True)),
        Move("reciprocal_multiply", "Divisions by what is the same in a row become products",
             _set(reciprocal_multiply=True)),
        Move("fma_contract", "Products and sums are rounded once", _cpu_only(
            "The compiler contracts products and sums already.", _set(fma_contract=True))),
        Move("exact_tile", "No bounds checks where tiles divide the data", _set(exact_tile=True)),
        Move("guarded_tail", "Bounds checks for any size", _set(exact_tile=False)),
        Move("unroll", "Loops are unrolled", _unroll, {"factor": (4, 2, 8)}),
        Move("hoist_broadcast", "Broadcast operands are read once outside the inner loop", _hoist),
        Move("broadcast_in_shared", "Broadcast operands are staged in shared memory", _gpu_only(
            "A CPU has no separate shared memory; its caches hold the operand.", _set(broadcast_in_shared=True))),
        Move("index_32bit", "Indices are 32-bit", _index_32bit),
        Move("precompute_parameters", "What depends on parameters only is computed once, in prepare", _precompute),
        Move("library_reference", "PyTorch's own operations compute everything", _library),
        Move("recompute_instead_of_store", "Values with several readers are computed again", _set(recompute=True)),
        Move("flush_denormals", "Inputs below the normal range count as zero", _cpu_only(
            "Denormal numbers cost nothing on this device.", _set(flush_denormals=True))),
        Move("two_accumulators", "Two independent partial results", _needs_reduction(_set(accumulators=2))),
        Move("four_accumulators", "Four independent partial results", _needs_reduction(_set(accumulators=4))),
    ]  # fmt: skip
    return {move.name: move for move in moves}


MOVES: dict[str, Move] = _table()
