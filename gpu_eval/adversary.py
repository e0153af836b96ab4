"""A corpus of tricks and honest neighbours put before the real judge, a verdict a file.

A corpus is a folder of files in any depth. Each begins with comments that say what it is::

    # trick: one sentence            (or  # honest: one sentence)
    # operator: softmax_rows         a file under operators/; not for kind operator
    # expect: wrong|timeout          the verdicts that it may get
    # device: any|opencl|cuda
    # kind: plan|operator|foreign
    # threat: the row of the threat table
    # policy: library=forbid         optional, one `EvaluationPolicy` field a line
    # hidden: root:x:0               optional: text that may appear nowhere in what the evaluation says
    # speedup: 3                     optional: more than this is a trick that worked

A plan for ``any`` device is written once: words that begin with ``@`` stand for what differs between the
languages (see `WORDS`). An operator file is inspected, then held against a plan that writes zeros: it ends as
``unusable``, ``blocked`` (a gate failed), ``fooled`` (zeros passed) or ``clean``.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_eval.devices.probe import probe_devices
from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.evaluator import EvaluationSession
from gpu_eval.files import read_bytes
from gpu_eval.limits import MAX_PLAN_BYTES, Limits
from gpu_eval.results import (
    Evaluation,
    EvaluationPolicy,
    LibraryPolicy,
    Precision,
    Protocol,
    Verdict,
    dump_json,
)

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "adversary"
OPERATORS = "operators"
UNUSABLE, BLOCKED, CLEAN, FOOLED, FAULT, LEAKED, TOO_FAST = (
    "unusable",
    "blocked",
    "clean",
    "fooled",
    "fault",
    "leaked",
    "too fast",
)
ENDS = (*(verdict.value for verdict in Verdict), UNUSABLE, BLOCKED, CLEAN)
WORKED = (Verdict.CORRECT.value, CLEAN, FOOLED, FAULT, LEAKED, TOO_FAST)  # no trick is caught by one of these
KINDS, DEVICES = ("plan", "operator", "foreign"), ("opencl", "cuda")
HEADER = re.compile(r"#\s*(trick|honest|operator|expect|device|kind|threat|policy|hidden|speedup)\s*:\s*(.+)")
POLICY_TYPES: dict[str, Callable[[str], Any]] = {
    "precision": Precision,
    "library": LibraryPolicy,
    "protocol": Protocol,
    "preset": str,
    "correctness_rounds": int,
    "timed_calls": int,
}
# Short, so that an endless loop costs seconds; the real limits differ in nothing but length.
LIMITS = Limits(
    run_s=5.0,
    compile_s=20.0,
    bind_s=15.0,
    timing_budget_s=0.4,
    operator_stage_s=12.0,
    judge_call_s=30.0,
    inspect_s=45.0,
    evaluation_s=90.0,
)
TIMED_CALLS = 12
JOBS = 2

WORDS = {
    "opencl": {
        "@language": "opencl",
        "@kernel": "__kernel void",
        "@device": "",
        "@global": "__global",
        "@local": "__local",
        "@constant": "__constant",
        "@index": "((int)get_global_id(0))",
        "@thread": "((int)get_local_id(0))",
        "@group": "((int)get_group_id(0))",
        "@threads": "((int)get_local_size(0))",
        "@groups": "((int)get_num_groups(0))",
        "@sync": "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
        "@add_int": "atomic_add",
        "@cas_int": "atomic_cmpxchg",
        "@float_bits": "as_int",
        "@bits_float": "as_float",
        "@float4": "(float4)",
    },
    "cuda": {
        "@language": "cuda",
        "@kernel": 'extern "C" __global__ void',
        "@device": "__device__",
        "@global": "",
        "@local": "__shared__",
        "@constant": "__constant__",
        "@index": "((int)(blockIdx.x * blockDim.x + threadIdx.x))",
        "@thread": "((int)threadIdx.x)",
        "@group": "((int)blockIdx.x)",
        "@threads": "((int)blockDim.x)",
        "@groups": "((int)gridDim.x)",
        "@sync": "__syncthreads()",
        "@add_int": "atomicAdd",
        "@cas_int": "atomicCAS",
        "@float_bits": "__float_as_int",
        "@bits_float": "__int_as_float",
        "@float4": "make_float4",
    },
}
WORD = re.compile(r"@[a-z_]+[0-9]?\b")


@dataclass(frozen=True)
class Entry:
    """One file of a corpus. ``device`` is "any", or the only kind that it is for."""

    path: Path
    name: str  # relative to the corpus
    trick: bool
    sentence: str
    text: str
    kind: str = "plan"
    operator: str = ""
    expect: tuple[str, ...] = ()
    device: str = "any"
    threat: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    speedup: float | None = None

    def plan(self, device: str) -> str:
        """The text for one device."""
        return in_language(self.text, device) if self.kind == "plan" else self.text


@dataclass(frozen=True)
class Outcome:
    """What became of one file. ``good``: the trick was caught, or the honest file passed; ``exact``: with an
    expected verdict."""

    entry: Entry
    verdict: str
    message: str
    seconds: float
    evaluation: Evaluation | None = None

    @property
    def exact(self) -> bool:
        return self.verdict in self.entry.expect

    @property
    def good(self) -> bool:
        return self.exact or (self.entry.trick and self.verdict not in WORKED)

    def to_json(self) -> dict[str, Any]:
        """Names, verdicts and the first words of the message."""
        entry, evaluation = self.entry, self.evaluation
        return {
            "file": entry.name,
            "kind": entry.kind,
            "trick": entry.trick,
            "sentence": entry.sentence,
            "operator": entry.operator,
            "device": entry.device,
            "threat": entry.threat,
            "expected": list(entry.expect),
            "verdict": self.verdict,
            "good": self.good,
            "exact": self.exact,
            "message": self.message[:500],
            "speedup": evaluation.speedup if evaluation else None,
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class Report:
    """All outcomes. ``skipped`` pairs a file's name with the reason."""

    outcomes: list[Outcome]
    skipped: list[tuple[str, str]]

    @property
    def tricks(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.entry.trick]

    @property
    def honest(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if not outcome.entry.trick]

    @property
    def passed(self) -> bool:
        return bool(self.outcomes) and all(outcome.good for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Counts and files."""
        return {
            "caught": sum(outcome.good for outcome in self.tricks),
            "tricks": len(self.tricks),
            "honest_refused": sum(not outcome.good for outcome in self.honest),
            "honest": len(self.honest),
            "skipped": [{"file": name, "reason": reason} for name, reason in self.skipped],
            "files": [outcome.to_json() for outcome in self.outcomes],
        }


def in_language(text: str, device: str) -> str:
    """``text`` with the words of `WORDS` replaced; others that begin with ``@`` stay."""
    words = WORDS[device]
    return WORD.sub(lambda match: words.get(match[0], match[0]), text)


def read_corpus(folder: Path) -> list[Entry]:
    """Every file that says what it is. Raises UnusableInput naming the file and the field that is wrong."""
    if not folder.is_dir():
        raise UnusableInput(f"{folder} is not a folder.")
    paths = sorted(path for path in folder.rglob("*.py") if OPERATORS not in path.parent.parts[-1:])
    entries = [read_entry(path, folder) for path in paths if path.name != "__init__.py"]
    if not entries:
        raise UnusableInput(f"{folder} holds no corpus: no Python file in it.")
    return entries


def read_entry(path: Path, folder: Path) -> Entry:
    """One file's header and text. Raises UnusableInput."""
    text = read_bytes(path, MAX_PLAN_BYTES * 2).decode("utf-8", "surrogateescape")
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if match := HEADER.match(line):
            fields.setdefault(match[1], []).append(match[2].strip())
    name = str(path.relative_to(folder))
    try:
        return make_entry(path, name, text, fields)
    except ValueError as error:
        raise UnusableInput(f"{name}: {error}") from error


def make_entry(path: Path, name: str, text: str, fields: dict[str, list[str]]) -> Entry:
    """An Entry of header fields. Raises ValueError with a sentence."""
    first = {key: values[0] for key, values in fields.items()}
    if ("trick" in first) == ("honest" in first):
        raise ValueError('the header has either "# trick:" or "# honest:".')
    trick, kind, device = "trick" in first, first.get("kind", "plan"), first.get("device", "any")
    if kind not in KINDS or device not in ("any", *DEVICES):
        raise ValueError(f'unknown kind "{kind}" or device "{device}".')
    if kind != "operator" and not first.get("operator"):
        raise ValueError('the header lacks "# operator:".')
    expect = tuple(word.strip() for word in first.get("expect", "" if trick else "correct").split("|"))
    if unknown := [word for word in expect if word not in ENDS]:
        raise ValueError(f'"# expect:" names no verdict with "{unknown[0]}".')
    return Entry(
        path=path,
        name=name,
        trick=trick,
        sentence=first["trick" if trick else "honest"],
        text=text,
        kind=kind,
        operator=first.get("operator", ""),
        expect=expect,
        device=device,
        threat=first.get("threat", ""),
        policy=policy_fields(fields.get("policy", [])),
        hidden=tuple(fields.get("hidden", [])),
        speedup=float(first["speedup"]) if "speedup" in first else None,
    )


def policy_fields(lines: list[str]) -> dict[str, Any]:
    """``library=forbid`` lines as fields of an EvaluationPolicy. Raises ValueError."""
    fields: dict[str, Any] = {}
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() not in POLICY_TYPES:
            raise ValueError(f'"# policy:" knows no "{key.strip()}".')
        fields[key.strip()] = POLICY_TYPES[key.strip()](value.strip())
    return fields


def run(
    folder: Path,
    device: str,
    *,
    only: str = "*",
    jobs: int = JOBS,
    heard: Callable[[Outcome], None] = lambda outcome: None,
) -> Report:
    """Evaluate the corpus on ``device``, ``jobs`` sessions at a time. Raises UnusableInput."""
    entries = [entry for entry in read_corpus(folder) if matches(entry, only)]
    if not entries:
        raise UnusableInput(f"No file in {folder} matches {only}.")
    if not any(facts.kind == device for facts in probe_devices()):
        raise UnusableInput(f'This machine has no usable "{device}" device.')
    skipped = [
        (entry.name, f"for {entry.device}") for entry in entries if entry.device not in ("any", device)
    ]
    chosen = [entry for entry in entries if entry.device in ("any", device)]
    groups = sorted(grouped(chosen).values(), key=len, reverse=True)
    lock = threading.Lock()

    def evaluate(group: list[Entry]) -> list[Outcome]:
        found = []
        for outcome in outcomes_of(group, folder, device):
            found.append(outcome)
            with lock:
                heard(outcome)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        done = [outcome for found in pool.map(evaluate, groups) for outcome in found]
    order = {entry.name: index for index, entry in enumerate(chosen)}
    return Report(sorted(done, key=lambda outcome: order[outcome.entry.name]), sorted(skipped))


def matches(entry: Entry, pattern: str) -> bool:
    """Whether a file is meant by ``--only``: its path, or its name without the suffix."""
    return fnmatch.fnmatch(entry.name, pattern) or fnmatch.fnmatch(entry.path.stem, pattern)


def is_foreign(entry: Entry) -> bool:
    return entry.kind == "foreign"


def grouped(entries: list[Entry]) -> dict[tuple[str, ...], list[Entry]]:
    """Files that one judge can serve."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        own = entry.name if entry.kind == "operator" else ""
        policy = " ".join(f"{key}={value}" for key, value in sorted(entry.policy.items()))
        groups.setdefault((entry.operator, policy, own), []).append(entry)
    return groups


def outcomes_of(group: list[Entry], folder: Path, device: str) -> Iterator[Outcome]:
    """Verdicts of one group, in one session; in a new one after a fault."""
    left = list(group)
    while left:
        start = time.monotonic()
        try:
            with open_session(left[0], folder, device) as session:
                while left:
                    start = time.monotonic()
                    outcome = judged(session, left[0], device, start)
                    left.pop(0)
                    yield outcome
        except UnusableInput as error:
            yield Outcome(left.pop(0), UNUSABLE, str(error), time.monotonic() - start)
        except (EvaluatorFault, Exception) as error:
            message = f"{type(error).__name__}: {error}"
            yield Outcome(left.pop(0), FAULT, message, time.monotonic() - start)


def open_session(entry: Entry, folder: Path, device: str) -> EvaluationSession:
    """A session for a file's operator. Raises UnusableInput where that cannot be read."""
    policy = EvaluationPolicy(**{"timed_calls": TIMED_CALLS, **entry.policy})
    if entry.kind == "operator":
        text, name = entry.text, entry.path.name
    else:
        path = operator_path(entry, folder)
        text, name = read_bytes(path, MAX_PLAN_BYTES).decode(), path.name
    return EvaluationSession(text, device=device, policy=policy, operator_name=name, limits=LIMITS)


def operator_path(entry: Entry, folder: Path) -> Path:
    """The operator's file: in this corpus, else in our own."""
    own = folder / OPERATORS / f"{entry.operator}.py"
    return own if own.exists() else CORPUS / OPERATORS / f"{entry.operator}.py"


def judged(session: EvaluationSession, entry: Entry, device: str, start: float) -> Outcome:
    """One file's verdict within a session. Raises UnusableInput and EvaluatorFault."""
    if entry.kind == "operator":
        verdict, message, evaluation = judge_operator(session, device)
    else:
        evaluation = session.evaluate(entry.plan(device), foreign=is_foreign(entry))
        verdict, message = evaluation.verdict.value, evaluation.message
    if evaluation is not None and verdict not in (UNUSABLE, BLOCKED):
        said = dump_json(evaluation.to_json())
        if shown := [text for text in entry.hidden if text in said]:
            verdict, message = LEAKED, f'the evaluation shows "{shown[0]}"'
        elif entry.speedup is not None and (evaluation.speedup or 0) > entry.speedup and evaluation.correct:
            verdict, message = TOO_FAST, f"a speed-up of {evaluation.speedup:.1f}"
    return Outcome(entry, verdict, message, time.monotonic() - start, evaluation)


def judge_operator(session: EvaluationSession, device: str) -> tuple[str, str, Evaluation | None]:
    """What an operator file is worth: its gates, then zeros held against it."""
    report = session.inspect(compile_baseline=False)
    if report.health["blocked"]:
        return BLOCKED, str(report.health["sentence"]), None
    evaluation = session.evaluate(zeros_plan(session.layout, device))
    if evaluation.correct:
        return FOOLED, "zeros were called correct", evaluation
    return CLEAN, evaluation.message, evaluation


def zeros_plan(layout: dict[str, Any], device: str) -> str:
    """A plan that computes nothing and returns zeros of the right shapes."""
    lane = layout["lanes"][0]
    names = ", ".join([f"x{index}" for index in range(len(lane["inputs"]))] + ["params"])
    outputs = "".join(f"zeros({tuple(out['shape'])!r}, dtype={out['dtype']!r}), " for out in lane["outputs"])
    value = outputs[:-2] if len(lane["outputs"]) == 1 else f"({outputs})"
    return f"language = {device!r}\nkernels = ''\n\n\ndef forward({names}):\n    return {value}\n"


def line(outcome: Outcome) -> str:
    """One row of the table."""
    mark = "ok" if outcome.exact else "caught" if outcome.good else "FAILED"
    expected = "|".join(outcome.entry.expect)
    text = f"{mark:7}{outcome.entry.name:58}{expected:32}{outcome.verdict:18}{outcome.seconds:6.1f} s"
    return text if outcome.exact else f"{text}  {outcome.message[:200]}"


def summary(report: Report) -> str:
    """The last line."""
    data = report.to_json()
    return (
        f"{data['caught']} of {data['tricks']} tricks caught, {data['honest_refused']} of {data['honest']} "
        f"honest files refused, {len(report.skipped)} skipped"
    )


def as_dict(entry: Entry) -> dict[str, Any]:
    """An entry's header, for tests."""
    return {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
