"""The process that somebody else's module runs in: it builds `ModelNew`, calls it, hands over what came out.

Nothing here can be relied on once the module is loaded: its code may change anything in this process. Whatever
matters is checked from outside (see `gpu_eval.foreign.process`); this side only makes honest work easy to judge.
"""

from __future__ import annotations

import importlib
import linecache
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_eval.child import ExpectedFailure
from gpu_eval.devices.base import clean_log
from gpu_eval.errors import UnusableInput
from gpu_eval.foreign.memory import Shared, open_shared
from gpu_eval.foreign.model import Restorer, build, check_class, check_forward, own_weights, put_weights
from gpu_eval.foreign.source import CLASS
from gpu_eval.foreign.values import decode
from gpu_eval.judge.stages import describe, is_memory_failure, operator_line

MODULE_NAME = "foreign_module"
LAUNCHES = 20
LOST = (  # words of a CUDA error after which the context does no more work
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "unspecified launch failure",
    "launch failure",
    "hardware stack error",
    "device-side assert",
)
FREE_OPS = (
    "empty",
    "view",
    "as_strided",
    "detach",
    "expand",
    "reshape",
    "slice",
    "select",
    "transpose",
    "permute",
)

Tensors = list[torch.Tensor]


class Host:
    """One foreign module. Methods are requests; their results are JSON."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.kind = str(settings["device"])
        self.device = "cuda" if self.kind == "cuda" else "cpu"
        self.dtype = getattr(torch, settings["dtype"]) if settings["dtype"] else None
        self.tf32: list[bool] = settings["tf32"]
        self.filename = "foreign.py"
        # Taken before any foreign code runs: patching torch or time does not reach these names.
        self.clock, self.plain = time.perf_counter_ns, torch.Tensor
        self.synchronise = torch._C._cuda_synchronize if self.kind == "cuda" else do_nothing
        self.unavailable = self.open_device()
        self.shared: Shared
        self.layout: dict[str, Any] = {}
        self.init: dict[str, Any] = {}
        self.module: ModuleType | None = None
        self.call: Callable[..., Any] = do_nothing
        self.model: torch.nn.Module | None = None
        self.restorer: Restorer | None = None
        self.takes_weights = False
        self.fresh = False  # whether the model has not been called since it was built
        self.outputs: list[Any] = []

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "hello": self.hello,
            "attach": self.attach,
            "launch_us": self.launch_us,
            "load": self.load,
            "build": self.build,
            "weights": self.weights,
            "run": self.run,
            "collect": self.collect,
            "operations": self.operations,
        }

    # Before the module is loaded.

    def open_device(self) -> str:
        """Torch's context, its precision, folders for builds. Why there is none, or nothing."""
        scratch = os.environ.get("TMPDIR", "/tmp")
        os.environ["TORCH_EXTENSIONS_DIR"] = f"{scratch}/torch_extensions"
        os.environ["MAX_JOBS"] = str(min(4, os.cpu_count() or 1))
        add_scripts_to_path()
        if self.kind != "cuda":
            return ""
        try:
            torch.cuda.init()
            major, minor = torch.cuda.get_device_capability()
            os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
            self.wake = torch.zeros(32, device="cuda")
            import pycuda.driver as driver

            driver.init()
            driver.Device(torch.cuda.current_device()).retain_primary_context().push()
        except (RuntimeError, ImportError, OSError) as error:
            return str(error)
        return ""

    def hello(self) -> dict[str, Any]:
        if self.unavailable:
            raise ExpectedFailure("unavailable", self.unavailable)
        return {"versions": {"foreign torch": torch.__version__, "foreign python": platform.python_version()}}

    def attach(self, layout: dict[str, Any], init: dict[str, Any]) -> None:
        """Find the judge's memory. Until a module is loaded, a call is one that does nothing and gives outputs of
        the right shapes: what a round trip costs."""
        lanes = layout["lanes"]
        entries = [
            entry for lane in lanes for entry in (*lane["inputs"], *lane["outputs"]) if "handle" in entry
        ]
        self.shared = open_shared(self.kind, [*entries, *layout["params"].values()])
        self.layout, self.init = layout, init
        ready = [torch.zeros_like(self.shared.tensor(entry)) for entry in lanes[0]["outputs"]]
        self.call = lambda *inputs: tuple(ready)

    def launch_us(self) -> float:
        """The median time of one of torch's smallest operations, waited for."""
        small = torch.zeros(32, device=self.device)
        times = []
        for _ in range(LAUNCHES):
            self.synchronise()
            start = self.clock()
            small.add_(1)
            self.synchronise()
            times.append((self.clock() - start) / 1e3)
        return statistics.median(times)

    # The module.

    def load(self, source: str, filename: str) -> None:
        """Execute the file from the scratch folder: Triton reads sources from there."""
        self.filename = filename
        path = Path.cwd() / f"{MODULE_NAME}.py"
        path.write_text(source, encoding="utf-8", errors="surrogatepass")
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = (len(source), None, lines, filename)
        self.set_precision()
        with self.stage("compile_error", "the file"):
            self.module = executed(source, path)
            check_class(self.module, decode(self.init["given"]), filename)

    def build(self) -> dict[str, Any]:
        """Make the model. Answers why the operator's weights do not fit it, if so."""
        assert self.module is not None
        with self.stage("compile_error", f"{CLASS}()"):
            self.model = build(self.module, self.init, self.device, self.dtype)
            check_forward(self.model, self.inputs(0), self.filename)
            reason = own_weights(self.model, self.layout["params"])
            self.restorer = Restorer(self.model)
        self.call, self.fresh, self.takes_weights = self.model, True, not reason
        return {"reason": reason}

    def weights(self, lane: int) -> float:
        """Put the weights now in the judge's memory into a model that was never called, and call it once, so that
        what it builds on its first call is there. Microseconds."""
        start = self.clock()
        if not self.fresh:
            self.build()
        with self.stage("launch_error", f"{CLASS}()"), torch.no_grad():
            if self.takes_weights and self.model is not None:
                params = self.layout["params"]
                put_weights(self.model, {name: self.shared.tensor(entry) for name, entry in params.items()})
                self.restorer = Restorer(self.model)
        self.fresh = False
        with self.stage("launch_error", f"{CLASS}.forward()"), torch.no_grad():
            self.call(*self.inputs(lane))
            self.synchronise()
            self.restore()
        return (self.clock() - start) / 1e3

    def inputs(self, lane: int) -> list[Any]:
        """Fresh tensors over the judge's memory, and numbers."""
        entries = self.layout["lanes"][lane]["inputs"]
        return [entry["value"] if "value" in entry else self.shared.tensor(entry) for entry in entries]

    def run(self, lane: int) -> float:
        """One call, waited for; microseconds by this process's clock."""
        with self.stage("launch_error", f"{CLASS}.forward()"), torch.no_grad():
            inputs = self.inputs(lane)
            if self.kind == "cuda":
                self.wake.add_(1)  # the device turns to this process
            self.synchronise()
            start = self.clock()
            outputs = as_list(self.call(*inputs))
            for value in outputs:
                if type(value) is not self.plain:
                    raise wrong(f"{CLASS}.forward() returns {kind_of(value)}; it must return plain tensors.")
            self.synchronise()
            elapsed = self.clock() - start
        self.outputs = outputs
        return elapsed / 1e3

    def collect(self, lane: int) -> None:
        """Copy what the last call returned into the judge's memory."""
        outputs, self.outputs = self.outputs, []
        entries = self.layout["lanes"][lane]["outputs"]
        if len(outputs) != len(entries):
            raise wrong(f"{CLASS}.forward() returns {len(outputs)} tensors, the operator {len(entries)}.")
        with self.stage("launch_error", f"{CLASS}.forward()"), torch.no_grad():
            for index, (value, entry) in enumerate(zip(outputs, entries, strict=True)):
                name = "The output" if len(entries) == 1 else f"Output {index}"
                self.check_output(name, value, entry)
                self.shared.tensor(entry).copy_(value)
            self.synchronise()
            self.restore()

    def check_output(self, name: str, value: torch.Tensor, entry: dict[str, Any]) -> None:
        """Raise ExpectedFailure ("wrong") unless an output has the operator's shape, type and device."""
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            raise wrong(f"{name} is not a dense tensor.")
        if value.device.type != self.device:
            raise wrong(f"{name} is on {value.device.type}, expected {self.device}.")
        if list(value.shape) != list(entry["shape"]):
            raise wrong(f"{name} has shape {list(value.shape)}, expected {list(entry['shape'])}.")
        if str(value.dtype) != f"torch.{entry['dtype']}":
            raise wrong(f"{name} is {str(value.dtype).removeprefix('torch.')}, expected {entry['dtype']}.")

    def restore(self) -> None:
        if self.restorer is not None:
            self.restorer.restore()

    def operations(self, lane: int) -> list[str]:
        """Names of torch's own operations that one call makes; information, since the module may hide them."""
        seen = Operations()
        with self.stage("launch_error", f"{CLASS}.forward()"), torch.no_grad(), seen:
            self.call(*self.inputs(lane))
        self.synchronise()
        self.restore()
        return sorted(seen.names)

    # Failures.

    def set_precision(self) -> None:
        """Whether torch may round to TF32, as for the library calls of plans."""
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = self.tf32

    @contextmanager
    def stage(self, kind: str, what: str) -> Iterator[None]:
        """Turn whatever the module raises into a failure of ``kind``, or of a better one."""
        try:
            yield
        except ExpectedFailure:
            raise
        except UnusableInput as error:
            raise ExpectedFailure("rejected", f"{self.filename}: {error}") from error
        except BaseException as error:
            raise self.failure(kind, what, error) from error

    def failure(self, kind: str, what: str, error: BaseException) -> ExpectedFailure:
        """What, where and why in a sentence; the whole text as the log."""
        text = str(error)
        if is_memory_failure(error):
            kind = "out_of_memory"
        elif any(words in text.lower() for words in LOST):
            kind = "crashed"
        elif "Error building extension" in text:
            kind = "compile_error"
        where = operator_line(error, str(Path.cwd() / f"{MODULE_NAME}.py"))
        message = clean_log(f"{what} raised {describe(error)}")
        return ExpectedFailure(kind, f"{self.filename}{where}: {message}.", log=clean_log(text))


class Operations(TorchDispatchMode):
    """Collects the names of operations that reach torch's kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket).removeprefix("aten.")
        if not name.lstrip("_").startswith(FREE_OPS):
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def executed(source: str, path: Path) -> ModuleType:
    """The module of a file, importable by name as Triton and dataclasses want it."""
    importlib.invalidate_caches()
    sys.path.insert(0, str(path.parent))
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    linecache.checkcache(str(path))
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def add_scripts_to_path() -> None:
    """Let builds find programs that came with Python packages (ninja)."""
    scripts = str(Path(sys.executable).parent)
    places = os.environ.get("PATH", "").split(os.pathsep)
    if scripts not in places:
        os.environ["PATH"] = os.pathsep.join([*places, scripts])


def as_list(result: Any) -> list[Any]:
    """Forward's result as a list."""
    return list(result) if type(result) in (tuple, list) else [result]


def kind_of(value: Any) -> str:
    """What a value is, for a sentence."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}, a subclass of torch.Tensor"
    return f"a {type(value).__name__}"


def wrong(sentence: str) -> ExpectedFailure:
    return ExpectedFailure("wrong", sentence)


def do_nothing(*_: Any) -> None:
    """No device to wait for."""
