"""From candidate text to verdict: the warm evaluator beside torch's `load_inline` in a fresh process.

    python -m benchmarks.load_inline [--parallel 1] [--json] [NAME ...]

Needs an NVIDIA GPU, nvcc, g++ and ninja; no Django. For each sample operator (all by default) recipes write one
fused CUDA plan. Ours: `EvaluationSession.evaluate` in an open session with warm runners, its compile cache empty:
compile, five rounds of checks against float64, at least 100 timed and verified calls beside eager. Theirs: a fresh
Python process imports torch, compiles the same kernels through `load_inline`, compares five rounds with eager by
`torch.allclose` and times 100 calls beside 100 of eager by events. Prints both, the ratio and the medians.
``--parallel`` compiles so many of theirs at a time on idle cores; ours always run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpu_eval.evaluator import EvaluationSession
from gpu_eval.plans import Program, TensorSpec, bind, parse_plan
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.program import Allocate, Launch, SlotKind, SlotView
from optimizer.recipes import Schedule, generate_plan

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "optimizer" / "samples"
SCHEDULE = Schedule(
    fuse_all=True,
    row_strategy="block",
    vector_width=4,
    block_size=256,
    warp_shuffle=True,
    row_storage="registers",
)
ANY_GPU = BindLimits(
    max_threads_per_block=1024,
    max_block=(1024, 1024, 64),
    max_grid=(2**31 - 1, 65535, 65535),
    max_shared_bytes=96 * 1024,
    max_memory_bytes=2**40,
)
CPP_TYPES = {"int32": "int", "int64": "long long", "float32": "float", "float64": "double"}

SCRIPT = """
import sys, torch
from torch.utils.cpp_extension import load_inline
space = {{}}
exec(compile(open({operator!r}).read(), "operator.py", "exec"), space)
with torch.device("cuda"):
    model = space["Model"](*space["get_init_inputs"]())
weights = dict(model.named_parameters()) | dict(model.named_buffers())
params = [weights[name].detach() for name in {params!r}]
module = load_inline("candidate", [open({cpp!r}).read()], [open({cuda!r}).read()], functions=["forward"])
same = True
with torch.no_grad(), torch.device("cuda"):
    for seed in range(5):
        torch.manual_seed(seed)
        inputs = space["get_inputs"]()
        same &= torch.allclose(module.forward(inputs, params)[0], model(*inputs), rtol=1e-4, atol=1e-4)
    times = [[], []]
    for _ in range(100):
        for of, call in zip(times, (lambda: module.forward(inputs, params), lambda: model(*inputs))):
            before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before.record(); call(); after.record(); torch.cuda.synchronize()
            of.append(before.elapsed_time(after))
print("correct" if same else "wrong", sum(times[1]) / sum(times[0]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds to a verdict, ours and load_inline's.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.names or sorted(path.stem for path in SAMPLES.glob("[!_]*.py"))
    with tempfile.TemporaryDirectory(prefix="htam-bench-") as folder:
        os.environ["HTAM_VAR_DIR"] = folder  # an empty compile cache
        ours = {name: evaluate(name, Path(folder)) for name in names}
        with ThreadPoolExecutor(options.parallel) as pool:
            theirs = dict(
                zip(names, pool.map(lambda name: load_inline(Path(folder, name)), names), strict=True)
            )
    report(names, ours, theirs, options.json)


def evaluate(name: str, folder: Path) -> dict[str, Any]:
    """Our verdict on the recipe's plan, and the files that the other side needs."""
    source = (SAMPLES / f"{name}.py").read_text()
    with EvaluationSession(source, device="cuda", operator_name=name) as session:
        report = session.inspect(compile_baseline=False)
        assert report.graph is not None, report.graph_reason
        plan = generate_plan(report.graph, SCHEDULE, "cuda", {"compute_units": session.device.compute_units})
        write_extension(folder / name, source, plan, report, session.layout)
        session.runners.settle()
        start = time.monotonic()
        result = session.evaluate(plan)
        seconds = time.monotonic() - start
    return {
        "seconds": seconds,
        "verdict": result.verdict.value,
        "message": result.message,
        "speedup": result.speedup,
        "eager_us": result.baseline.median_us if result.baseline else None,
        "timed_calls": len(result.candidate.samples_us) if result.candidate else 0,
        "phases": result.phase_seconds,
    }


def load_inline(folder: Path) -> dict[str, Any]:
    """The same kernels in a fresh process."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(folder / "check.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / "build")},
        cwd=folder,
    )
    seconds = time.monotonic() - start
    if done.returncode != 0:
        return {"seconds": seconds, "verdict": "failed", "speedup": None, "error": done.stderr[-500:]}
    verdict, ratio = done.stdout.split()[-2:]
    return {"seconds": seconds, "verdict": verdict, "speedup": float(ratio)}


def write_extension(folder: Path, source: str, plan: str, report: Any, layout: dict[str, Any]) -> None:
    """Operator, kernels with a C++ launcher, and the script that checks them."""
    folder.mkdir()
    parsed = parse_plan(plan)
    entries = layout["lanes"][0]["inputs"]
    inputs = [entry["value"] if "value" in entry else spec(entry) for entry in entries]
    params = {name: spec(entry) for name, entry in layout["params"].items()}
    program = bind(parsed, inputs, params, limits=ANY_GPU)
    paths = {name: folder / name for name in ("operator.py", "bindings.cpp", "kernels.cu", "check.py")}
    paths["operator.py"].write_text(source)
    declaration = (
        "std::vector<torch::Tensor> forward(std::vector<torch::Tensor> x, std::vector<torch::Tensor> p)"
    )
    paths["bindings.cpp"].write_text(declaration + ";\n")
    paths["kernels.cu"].write_text(f"{parsed.kernels}\n{declaration} {{\n{launcher(program)}}}\n")
    paths["check.py"].write_text(
        SCRIPT.format(
            operator=str(paths["operator.py"]),
            cpp=str(paths["bindings.cpp"]),
            cuda=str(paths["kernels.cu"]),
            params=list(program.params),
        )
    )


def spec(entry: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(entry["shape"]), entry["dtype"])


def launcher(program: Program) -> str:
    """The body of `forward`: the program's allocations and launches in C++."""
    lines = []
    inputs = [slot for slot in program.inputs if slot is not None]
    for position, slot in enumerate(inputs):
        lines.append(f"torch::Tensor s{slot} = x[{position}];")
    for position, slot in enumerate(program.params.values()):
        lines.append(f"torch::Tensor s{slot} = p[{position}];")
    for made in program.slots:
        if made.kind not in (SlotKind.INPUT, SlotKind.PARAM):
            shape = ", ".join(map(str, made.spec.shape))
            dtype = f"torch::k{made.spec.dtype.capitalize()}"
            options = f"torch::dtype({dtype}).device(torch::kCUDA)"
            lines.append(f"torch::Tensor s{made.index} = torch::empty({{{shape}}}, {options});")
    for number, step in enumerate((*program.prepare_steps, *program.steps)):
        if isinstance(step, Launch):
            lines += launch(number, step)
        elif isinstance(step, Allocate) and step.zero:
            lines.append(f"s{step.slot}.zero_();")
        elif not isinstance(step, Allocate):
            raise SystemExit(f"no C++ form of {type(step).__name__}")
    lines.append(f"return {{{', '.join(f's{view.slot}' for view in program.outputs)}}};")
    return "".join(f"  {line}\n" for line in lines)


def launch(number: int, step: Launch) -> list[str]:
    """One launch through the runtime's own call, which takes addresses of arguments."""
    lines, names = [], []
    for position, argument in enumerate(step.args):
        name = f"a{number}_{position}"
        if isinstance(argument, SlotView):
            lines.append(f"char* {name} = (char*)s{argument.slot}.data_ptr() + {argument.offset_bytes};")
        else:
            lines.append(f"{CPP_TYPES[argument.kind]} {name} = {argument.value!r};")
        names.append(f"&{name}")
    grid, block = (", ".join(map(str, size)) for size in (step.grid, step.block))
    arguments = f"void* l{number}[] = {{{', '.join(names)}}};"
    call = f"cudaLaunchKernel((const void*)&{step.kernel}, dim3({grid}), dim3({block}), l{number}, {step.shared}, 0);"
    return [*lines, arguments, call]


def report(
    names: list[str], ours: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]], as_json: bool
) -> None:
    """A line an operator, then the medians."""
    ratios = [theirs[name]["seconds"] / ours[name]["seconds"] for name in names]
    medians = {
        "operators": len(names),
        "ours_median_s": statistics.median(ours[name]["seconds"] for name in names),
        "load_inline_median_s": statistics.median(theirs[name]["seconds"] for name in names),
        "ratio_median": statistics.median(ratios),
    }
    if as_json:
        print(json.dumps({**medians, "ours": ours, "load_inline": theirs}))
        return
    print(
        f"{'operator':26} {'ours s':>7} {'verdict':>8} {'load_inline s':>13} {'verdict':>8} {'ratio':>6}  phases"
    )
    for name, ratio in zip(names, ratios, strict=True):
        our, their = ours[name], theirs[name]
        print(
            f"{name:26} {our['seconds']:7.2f} {our['verdict']:>8} {their['seconds']:13.1f} "
            f"{their['verdict']:>8} {ratio:6.1f}  {our['phases']} {their.get('error', '')}"
        )
    print(", ".join(f"{key} {value:.3g}" for key, value in medians.items()))


if __name__ == "__main__":
    main()
