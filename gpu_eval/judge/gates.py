"""Gates: what would make a verdict about an operator worthless, or a figure of it misleading.

Each is tried the way a candidate would meet it: prepared rounds, the verifier's own comparison. A gate that
``blocks`` stops runs until its owner overrides it; the others are notes beside every result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpu_eval.judge.inputs import OWN, Draw, shuffle
from gpu_eval.judge.reference import finite_share, is_sane
from gpu_eval.judge.structure import Kind, Structure
from gpu_eval.judge.verdicts import Expected, same_bits
from gpu_eval.results import Protocol

if TYPE_CHECKING:
    from gpu_eval.judge.judge import Judge

OWN_ROUNDS = 2
SHOWN = 3  # names in a sentence

Gate = dict[str, Any]


def all_gates(judge: Judge, seed: int) -> list[Gate]:
    """Every gate's answer, over the operator's own inputs and the distributions that it bears."""
    count = OWN_ROUNDS + len(judge.distributions.usable)
    judge.begin(seed, rounds=count)
    rounds = [prepared(judge, index) for index in range(count)]
    own = [expected for expected in rounds if expected.variant == OWN]
    trial = Trial(judge, rounds, own)
    gates = [
        trial.fooled("zeros_pass", "An all-zero output", [0.0 for _ in rounds[0].eager]),
        trial.fooled("constant_pass", "A constant output", [middle(out) for out in rounds[0].eager]),
        trial.input_passes(),
        trial.depends_on_input(),
        trial.deterministic(),
        trial.mutates_inputs(),
        finite(own),
        trial.well_conditioned(),
        trial.own_inputs_tell(),
        trial.inputs_matter(),
        fresh_inputs(judge),
        live_work(judge),
    ]
    judge.begin(seed)
    return gates


def prepared(judge: Judge, index: int) -> Expected:
    """One check round as a candidate would meet it, with both references computed."""
    judge.prepare(index)
    return judge.current()


def gate(name: str, passed: bool, good: str, bad: str, blocks: bool = True) -> Gate:
    return {"name": name, "passed": passed, "sentence": good if passed else bad, "blocks": blocks}


class Trial:
    """The rounds of one operator, to hold made-up answers against."""

    def __init__(self, judge: Judge, rounds: list[Expected], own: list[Expected]) -> None:
        self.judge = judge
        self.rounds = rounds
        self.own = own

    def passes(self, outputs: list[torch.Tensor], expected: Expected) -> bool:
        """Whether made-up outputs would be called right."""
        errors = self.judge.own_errors.get(expected.variant)
        return all(
            output.shape == eager.shape
            and output.dtype == eager.dtype
            and self.judge.verifier.compare(index, output, expected, errors).passed
            for index, (output, eager) in enumerate(zip(outputs, expected.eager, strict=True))
        )

    def filled(self, expected: Expected, values: list[float]) -> list[torch.Tensor]:
        """Outputs that hold one value each."""
        return [torch.full_like(out, value) for out, value in zip(expected.eager, values, strict=True)]

    def fooled(self, name: str, what: str, values: list[float]) -> Gate:
        """Do outputs filled with fixed ``values`` (an output each) pass every round?"""
        passes = all(self.passes(self.filled(expected, values), expected) for expected in self.rounds)
        return gate(
            name,
            not passes,
            f"{what} is told from the right one.",
            f"{what} passes the tolerance, so a kernel that computes nothing would be called correct. Let "
            "Model return something that varies with its inputs.",
        )

    def copied(self) -> list[str]:
        """Inputs that pass as the only output in every round."""
        return [
            name
            for position, name in enumerate(self.judge.input_names())
            if all(self.input_is_output(expected, position) for expected in self.rounds)
        ]

    def input_is_output(self, expected: Expected, position: int) -> bool:
        value = expected.inputs[position]
        if len(expected.eager) != 1 or not isinstance(value, torch.Tensor):
            return False
        return self.passes([value], expected)

    def input_passes(self) -> Gate:
        """Does some input, handed back, pass every round?"""
        names = self.copied()
        return gate(
            "input_passes",
            not names,
            "No input passes as the output.",
            f'The input "{first(names)}" itself passes as the output, so a kernel that copies it would be '
            "correct. Give get_inputs() values on which the operator does something.",
        )

    def stored_passes(self, rounds: list[Expected]) -> bool:
        """Whether the first round's answer passes in all the others."""
        return len(rounds) > 1 and all(self.passes(rounds[0].eager, expected) for expected in rounds[1:])

    def depends_on_input(self) -> Gate:
        """Would one round's answer pass in all the others?"""
        return gate(
            "depends_on_input",
            not self.stored_passes(self.rounds),
            "The output depends on the input.",
            "The output is the same within the tolerance whatever the input, so a stored answer would be "
            "called correct. Look for a reduction over a dimension of one, or a term that cancels.",
        )

    def own_inputs_tell(self) -> Gate:
        """Do the operator's own inputs alone tell a right kernel from one that does nothing?"""
        weak = []
        if all(self.passes(self.filled(one, [0.0] * len(one.eager)), one) for one in self.own):
            weak.append("zeros")
        values = [middle(output) for output in self.own[0].eager]
        if all(self.passes(self.filled(one, values), one) for one in self.own):
            weak.append("a constant")
        if any(
            all(self.input_is_output(one, at) for one in self.own) for at in range(len(self.judge.inputs))
        ):
            weak.append("an input itself")
        if self.stored_passes(self.own):
            weak.append("a stored answer")
        return gate(
            "own_inputs_tell",
            not weak,
            "The operator's own inputs tell right from wrong.",
            f"On the operator's own inputs {' and '.join(weak)} would pass; only other distributions tell.",
            blocks=False,
        )

    def deterministic(self) -> Gate:
        """Does PyTorch give the same answer twice, without being seeded again?"""
        expected, reference = self.own[-1], self.judge.reference
        one = reference.eager(expected.inputs, expected.seed)
        other = reference.eager(expected.inputs, expected.seed + 1)
        same = all(self.judge.verifier.repeats(a, b) for a, b in zip(one, other, strict=True))
        return gate(
            "deterministic",
            same,
            "The same input gives the same output.",
            "The same input gives different outputs: forward draws random numbers, and no kernel can be "
            "compared. Call eval() in Model's constructor, or draw in get_inputs().",
        )

    def mutates_inputs(self) -> Gate:
        """Does forward change its inputs?"""
        expected = self.own[-1]
        arguments = [value.clone() if isinstance(value, torch.Tensor) else value for value in expected.inputs]
        self.judge.reference.run_in_place(arguments, expected.seed)
        changed = [
            name
            for name, before, after in zip(self.judge.input_names(), expected.inputs, arguments, strict=True)
            if isinstance(before, torch.Tensor) and not same_bits(before, after)
        ]
        return gate(
            "mutates_inputs",
            not changed,
            "Forward leaves its inputs alone.",
            f'Forward changes its input "{first(changed)}" in place, which a plan must not do. Let it work '
            "on a copy and return that.",
        )

    def well_conditioned(self) -> Gate:
        """Is PyTorch's own answer near enough to float64's to judge others by?"""
        sane = True
        for expected in self.own:
            exact = expected.precise or expected.near or expected.eager
            sane &= all(is_sane(one, other) for one, other in zip(expected.eager, exact, strict=True))
        return gate(
            "well_conditioned",
            sane,
            "PyTorch's own rounding errors are small.",
            "PyTorch's own answer is far from the one in float64, so right and wrong kernels cannot be told "
            "apart. Use inputs that do not cancel or overflow.",
        )

    def inputs_matter(self) -> Gate:
        """Is there an input that may be replaced by another without being noticed?"""
        idle = []
        names = self.judge.input_names()
        for position, structure in enumerate(self.judge.distributions.structures):
            if structure.kind is not Kind.SCALAR and all(
                self.unnoticed(expected, position, structure) for expected in self.rounds
            ):
                idle.append(names[position])
        return gate(
            "inputs_matter",
            not idle,
            "Every input changes the output.",
            f"The output does not change beyond the tolerance with: {', '.join(idle[:SHOWN])}.",
            blocks=False,
        )

    def unnoticed(self, expected: Expected, position: int, structure: Structure) -> bool:
        """Whether the answer for another content of one input passes."""
        inputs = list(expected.inputs)
        donor = next((one for one in self.rounds if one is not expected), expected)
        inputs[position] = donor.inputs[position]
        if same_bits(inputs[position], expected.inputs[position]):
            inputs[position] = shuffle(inputs[position], structure, Draw(inputs[position], expected.seed))
        if same_bits(inputs[position], expected.inputs[position]):
            return False  # nothing else is known to be a valid input
        try:
            outputs = self.judge.reference.eager(inputs, expected.seed)
        except Exception:  # foreign code refuses the mixture: so the input matters
            return False
        return self.passes(outputs, expected)


def finite(own: list[Expected]) -> Gate:
    """Are the outputs numbers?"""
    shares = [finite_share(out) for one in own for out in one.eager if out.is_floating_point()]
    share = min(shares, default=1.0)
    if share == 0.0:
        bad = "Every element of the output is NaN or infinite, so there is nothing to compare."
    else:
        bad = f"{1 - share:.2g} of the output's elements are NaN or infinite; only the others are compared."
    return gate("finite", share == 1.0, "The outputs are finite.", bad, blocks=share == 0.0)


def fresh_inputs(judge: Judge) -> Gate:
    """Does get_inputs() give other values under another seed?"""
    changed = (
        "they are changed before each call" if judge.protocol is Protocol.STRICT else "calls repeat them"
    )
    return gate(
        "fresh_inputs",
        not judge.distributions.repeats,
        "get_inputs() draws new values each time.",
        f"get_inputs() gives the same tensors each time; {changed}.",
        blocks=False,
    )


def live_work(judge: Judge) -> Gate:
    """Does everything that forward computes reach its output?"""
    dead = sorted(set(judge.cost.dead))
    return gate(
        "live_work",
        not dead,
        "Everything that forward computes reaches its output.",
        f"Forward computes things that its output does not need ({', '.join(dead[:SHOWN])}); a kernel may "
        "leave them out, so speed-ups are partly that.",
        blocks=False,
    )


def middle(output: torch.Tensor) -> float:
    """The output's mean; its middle element for integers."""
    if output.numel() == 0:
        return 0.0
    if output.is_floating_point():
        return float(output.double().nan_to_num(0.0, 0.0, 0.0).mean())
    return output.reshape(-1)[output.numel() // 2].item()


def first(names: list[str]) -> str:
    return names[0] if names else ""
