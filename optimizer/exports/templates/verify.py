"""Check the kernels in model_new.py against the PyTorch operator in reference.py.

    python verify.py [--seeds 5]

Prints the largest error and what is allowed; ends with status 0 when every output passes, 1 when one does not.
Needs torch and @RUNTIME@; nothing else.
"""

import argparse
import copy
import importlib.util
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
DEVICE = "@DEVICE@"
PRECISION = "@PRECISION@"
ALLOWED = @ALLOWED@  # the largest relative error that the recorded evaluation allowed
OWN_FACTOR = 8.0  # or this many times the error of PyTorch itself
CAST = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(PRECISION)


def load(name):
    """A module of this folder, by file: the folder need not be importable."""
    spec = importlib.util.spec_from_file_location(f"bundle_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build(module, kind, seed):
    torch.manual_seed(seed)
    arguments = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    model = getattr(module, kind)(*arguments).to(DEVICE)
    return model.to(CAST) if CAST else model


def draw(module, seed):
    torch.manual_seed(seed)
    return [moved(value) for value in module.get_inputs()]


def moved(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.to(DEVICE)
    return value.to(CAST) if CAST and value.is_floating_point() else value


def outputs(model, inputs):
    with torch.no_grad():
        result = model(*[value.clone() if isinstance(value, torch.Tensor) else value for value in inputs])
    return list(result) if isinstance(result, (tuple, list)) else [result]


def exact(model, inputs):
    """The reference in float64; None where the operator cannot run in it."""
    try:
        double = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
        return outputs(copy.deepcopy(model).double(), double)
    except RuntimeError:
        return None


def error(actual, wanted):
    """The largest error relative to the reference's scale: its magnitude plus its root mean square."""
    if actual.numel() == 0:
        return 0.0
    if not actual.is_floating_point():
        return 0.0 if torch.equal(actual, wanted.to(actual.dtype)) else float("inf")
    wanted = wanted.double()
    same = actual.double() == wanted  # covers infinities of equal sign
    both = torch.isfinite(actual) & torch.isfinite(wanted)
    nan = torch.isnan(actual) & torch.isnan(wanted)
    if not bool((same | both | nan).all()):
        return float("inf")
    finite = wanted[both]
    if finite.numel() == 0:
        return 0.0
    level = max(float(finite.square().mean().sqrt()), 1e-30)
    relative = ((actual[both].double() - finite) / level).abs() / (1 + (finite / level).abs())
    return float(relative.max())


def main():
    parser = argparse.ArgumentParser(description="Check the kernels against PyTorch.")
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("FAILED: these kernels need an NVIDIA GPU, and torch sees none.")
        return 1
    if PRECISION == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    reference, new = load("reference"), load("model_new")
    worst, allowed, passed = 0.0, ALLOWED, True
    for seed in range(seeds):
        model, kernels = build(reference, "Model", seed), build(new, "ModelNew", seed)
        inputs = draw(reference, seed + 1000)
        eager, actual = outputs(model, inputs), outputs(kernels, inputs)
        wanted = exact(model, inputs) or eager
        if len(actual) != len(wanted):
            print(f"FAILED: {len(actual)} outputs instead of {len(wanted)}.")
            return 1
        for one, own, right in zip(actual, eager, wanted):
            if one.shape != right.shape or one.dtype != own.dtype:
                print(f"FAILED: got {one.dtype} {list(one.shape)}, not {own.dtype} {list(right.shape)}.")
                return 1
            limit = max(ALLOWED, OWN_FACTOR * error(own, right))
            found = error(one, right)
            worst, allowed = max(worst, found), max(allowed, limit)
            passed = passed and found <= limit
    word = "passed" if passed else "FAILED"
    print(f"{word}: largest relative error {worst:.3e} over {seeds} seeds, {allowed:.3e} allowed.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
