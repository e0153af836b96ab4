"""``python -m gpu_eval {evaluate,inspect,batch,adversary,devices}``.

Exit status: 0 when a verdict or a result was reached (a wrong kernel is a verdict), 2 for unusable input
with one line on standard error, 1 for a fault of ours. With ``--json`` standard output holds one JSON
object (batch: one a line).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gpu_eval import adversary, batch
from gpu_eval.devices.probe import probe_devices
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.files import device_for, read_operator, read_plan
from gpu_eval.report import device_text, evaluation_text, health_text
from gpu_eval.results import EvaluationPolicy, LibraryPolicy, Precision, Protocol, dump_json

OK, FAULT, UNUSABLE = 0, 1, 2


class Parser(argparse.ArgumentParser):
    """Wrong usage is unusable input: one line."""

    def error(self, message: str) -> NoReturn:
        raise UnusableInput(f"{message} (see python -m gpu_eval --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:
        options = make_parser().parse_args(arguments)
        return int(options.command(options))
    except UnusableInput as error:
        print(one_line(str(error)), file=sys.stderr)
        return UNUSABLE
    except EvaluatorFault as error:
        print(f"fault: {error}", file=sys.stderr)
        return FAULT
    except BrokenPipeError:
        return FAULT


def make_parser() -> Parser:
    """The command line."""
    parser = Parser(prog="python -m gpu_eval", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    evaluate_parser = commands.add_parser("evaluate", help="judge one candidate")
    evaluate_parser.add_argument("operator", metavar="OPERATOR", type=Path)
    evaluate_parser.add_argument("candidate", metavar="CANDIDATE", type=Path)
    add_policy(evaluate_parser)
    evaluate_parser.add_argument("--seed", type=int, default=None, help="for inputs; drawn when not given")
    evaluate_parser.add_argument(
        "--foreign",
        action="store_true",
        help="CANDIDATE is a KernelBench file with a class ModelNew; its result is marked untrusted",
    )
    evaluate_parser.set_defaults(command=evaluate)

    inspect_parser = commands.add_parser("inspect", help="the health report of an operator")
    inspect_parser.add_argument("operator", metavar="OPERATOR", type=Path)
    add_policy(inspect_parser)
    inspect_parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="time torch.compile too (default: on CUDA only)",
    )
    inspect_parser.set_defaults(command=inspect)

    batch_parser = commands.add_parser("batch", help="judge every NAME/*.plan.py with NAME/operator.py")
    batch_parser.add_argument("folder", metavar="DIR", type=Path)
    add_policy(batch_parser)
    batch_parser.set_defaults(command=run_batch)

    adversary_parser = commands.add_parser("adversary", help="put a corpus of tricks before the judge")
    adversary_parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=adversary.CORPUS)
    adversary_parser.add_argument("--device", choices=adversary.DEVICES, default="opencl")
    adversary_parser.add_argument("--only", metavar="GLOB", default="*", help="paths or names of files")
    adversary_parser.add_argument("--jobs", type=int, default=adversary.JOBS, help="sessions at a time")
    adversary_parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    adversary_parser.set_defaults(command=run_adversary)

    devices_parser = commands.add_parser("devices", help="the devices of this machine")
    devices_parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    devices_parser.set_defaults(command=devices)
    return parser


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Options that all judging commands share."""
    parser.add_argument("--device", choices=("auto", "cuda", "opencl"), default="auto")
    parser.add_argument(
        "--precision", choices=[item.value for item in Precision], default=Precision.FP32.value
    )
    parser.add_argument(
        "--library", choices=[item.value for item in LibraryPolicy], default=LibraryPolicy.ALLOW.value
    )
    parser.add_argument(
        "--protocol", choices=[item.value for item in Protocol], default=Protocol.STRICT.value
    )
    parser.add_argument(
        "--preset", default="auto", help='sizes: a preset\'s name, "full" for the file as it stands'
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output and nothing else there")


def policy_of(options: argparse.Namespace) -> EvaluationPolicy:
    """The policy that the options describe."""
    return EvaluationPolicy(
        precision=Precision(options.precision),
        library=LibraryPolicy(options.library),
        protocol=Protocol(options.protocol),
        preset=options.preset,
    )


def evaluate(options: argparse.Namespace) -> int:
    """One verdict."""
    source, plan = read_operator(options.operator), read_plan(options.candidate)
    device = options.device if options.foreign else device_for(plan, options.device)
    session = EvaluationSession(
        source,
        device=device,
        policy=policy_of(options),
        operator_name=options.operator.name,
    )
    with session:
        evaluation = session.evaluate(
            plan, seed=options.seed, foreign=options.foreign, filename=options.candidate.name
        )
    print(dump_json(evaluation.to_json()) if options.json else evaluation_text(evaluation))
    return OK


def inspect(options: argparse.Namespace) -> int:
    """The health report, with the captured graph in the JSON."""
    session = EvaluationSession(
        read_operator(options.operator),
        device=options.device,
        policy=policy_of(options),
        operator_name=options.operator.name,
    )
    with session:
        report = session.inspect(compile_baseline=options.compile)
    data = {**report.health, "graph": report.graph, "graph_reason": report.graph_reason}
    print(dump_json(data) if options.json else health_text(report))
    return OK


def run_batch(options: argparse.Namespace) -> int:
    """One line a verdict; plans for an absent device are skipped, unusable files named."""
    status = OK
    for entry in batch.run(options.folder, options.device, policy_of(options)):
        print(dump_json(entry.to_json()) if options.json else entry.text(), flush=True)
        if entry.error:
            print(one_line(entry.error), file=sys.stderr)
            status = UNUSABLE
    return status


def run_adversary(options: argparse.Namespace) -> int:
    """A corpus of tricks and honest files; status 1 unless every one ended as it must."""

    def heard(outcome: adversary.Outcome) -> None:
        if not options.json:
            print(adversary.line(outcome), flush=True)

    report = adversary.run(
        options.folder, options.device, only=options.only, jobs=max(1, options.jobs), heard=heard
    )
    if options.json:
        print(dump_json(report.to_json()))
    else:
        for name, reason in report.skipped:
            print(f"skipped {name}: {reason}")
        print(adversary.summary(report))
    return OK if report.passed else FAULT


def devices(options: argparse.Namespace) -> int:
    """The devices that evaluations can use."""
    found = probe_devices()
    if options.json:
        print(dump_json({"devices": [dataclasses.asdict(facts) for facts in found]}))
    else:
        print("\n".join(map(device_text, found)) or "no usable device")
    return OK


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
