"""CUDA source to a cubin: NVRTC through cuda.bindings where it is, else nvcc. Needs no GPU."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_eval.devices.base import (
    CompiledCode,
    CompileError,
    DeviceUnavailable,
    KernelFacts,
    Module,
    clean_log,
)
from gpu_eval.devices.cubin import Cubin, CubinKernel, demangled, plain_symbol, read_cubin
from gpu_eval.devices.cuda_headers import PRELUDE, PRELUDE_NAME, find_nvcc, include_folders, stand_in_headers
from gpu_eval.plans.kernels import plain_name
from gpu_eval.plans.parser import Plan

MAX_CUBIN_BYTES = 32 * 2**20  # in base64 well below the largest message
NVCC_SECONDS = 120
_STANDARD = "c++17"
_NVRTC_OUT_OF_MEMORY = 1
_NVCC_OUT_OF_MEMORY = re.compile(
    r"^(?!kernels).*(bad_alloc|out of memory|cannot allocate|memory exhausted)", re.I | re.M
)
_TOOLKIT_SYMBOL = re.compile(
    r"_ZNK?(?:\d+_(?:INTERNAL|GLOBAL)_\w*?)?(?:4cuda|6thrust|3cub|2nv|18cooperative_groups)"
)


@dataclass
class CompiledCuda:
    """A cubin with, for every wanted name, the kernel that it means."""

    cubin: bytes
    contents: Cubin
    kernels: dict[str, CubinKernel]
    log: str
    compiler: str  # "nvrtc 13.0" or "nvcc 13.0.88"
    seconds: float = 0.0

    def portable(self, source: str) -> CompiledCode:
        """For another process to load."""
        return CompiledCode(
            code=self.cubin,
            symbols={name: kernel.symbol for name, kernel in self.kernels.items()},
            log=self.log,
            compiler=self.compiler,
            device_globals=tuple(own_globals(self.contents, source)),
            seconds=self.seconds,
        )


@dataclass
class _Output:
    cubin: bytes
    log: str
    lowered: dict[str, str] = field(default_factory=dict)  # template instance to symbol


class _NoCompiler(Exception):
    """This compiler is not on this machine, or lacks what the source needs; another may do."""


def compile_cuda(
    source: str, names: Sequence[str], arch: str, options: Sequence[str] = ()
) -> CompiledCuda | CompileError:
    """Compile for ``arch`` (``sm_90``). Raises DeviceUnavailable when the machine has no CUDA compiler."""
    start = time.perf_counter()
    instances = [name for name in names if "<" in name]
    reasons = []
    for compiler, compile_with in (("nvrtc", _nvrtc), ("nvcc", _nvcc)):
        try:
            output = compile_with(source, instances, arch, options)
        except _NoCompiler as reason:
            reasons.append(f"{compiler}: {reason}")
            continue
        if isinstance(output, CompileError):
            return output
        compiled = _resolved(output, names, compiler_version(compiler))
        if isinstance(compiled, CompiledCuda):
            compiled.seconds = time.perf_counter() - start
        return compiled
    raise DeviceUnavailable("no CUDA compiler works here (" + "; ".join(reasons) + ")")


def compile_check(plan: Plan, arch: str = "sm_90") -> Module | CompileError:
    """Compile a CUDA plan on a machine that need not have a GPU; the module cannot be launched.

    Raises ValueError for a plan of another language, DeviceUnavailable when there is no CUDA compiler.
    """
    if plan.language != "cuda":
        raise ValueError("only CUDA plans can be compile-checked")
    compiled = compile_cuda(plan.kernels, plan.launch_names, arch)
    if isinstance(compiled, CompileError):
        return compiled
    kernels = {
        name: KernelFacts(
            name=name,
            registers=kernel.registers,
            spill_bytes=kernel.frame_bytes,
            parameter_bytes=kernel.parameter_bytes,
        )
        for name, kernel in compiled.kernels.items()
    }
    extra = {"compiler": compiled.compiler, "device_globals": own_globals(compiled.contents, plan.kernels)}
    return Module(kernels, compiled.log, compiled.seconds, extra=extra)


def compile_code(
    source: str, names: Sequence[str], arch: str, options: Sequence[str] = ()
) -> CompiledCode | CompileError:
    """As `compile_cuda`; a source of nothing is code of nothing."""
    if not source.strip() and not names:
        return CompiledCode(b"", {})
    compiled = compile_cuda(source, names, arch, options)
    return compiled if isinstance(compiled, CompileError) else compiled.portable(source)


def native_arch(architecture: str) -> str:
    """``sm_90a`` for ``sm_90``: with the architecture's own instructions, where it has such."""
    digits = re.fullmatch(r"sm_(\d+)", architecture)
    return f"{architecture}a" if digits and int(digits[1]) >= 90 else architecture


@lru_cache(maxsize=1)
def toolkit() -> str:
    """What decides, beside source and architecture, which code comes out: compilers and headers."""
    parts = [compiler_version("nvrtc"), compiler_version("nvcc"), _STANDARD]
    for folder in include_folders():
        parts.append(_digest_of(Path(folder, "cuda.h"), Path(folder, "cuda_fp16.h"), Path(folder, "version")))
    parts.append(hashlib.sha256(PRELUDE.encode()).hexdigest()[:16])
    return "; ".join(parts)


def _digest_of(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=4)
def compiler_version(name: str) -> str:
    """``nvrtc 13.0``, ``nvcc 13.0.88``; the name alone where there is no such compiler."""
    if name == "nvrtc":
        try:
            from cuda.bindings import nvrtc

            _, major, minor = nvrtc.nvrtcVersion()
        except Exception:
            return name
        return f"{name} {major}.{minor}"
    nvcc = find_nvcc()
    if nvcc is None:
        return name
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return name
    found = re.search(r"\bV(\d[\d.]*)", text)
    return f"{name} {found[1]}" if found else name


def own_globals(contents: Cubin, source: str) -> list[str]:
    """Writable device variables of the source; the toolkit's headers bring some of their own.

    A variable counts as the toolkit's only when its namespace is and the source cannot have named it.
    """
    words = set(re.findall(r"[A-Za-z_]\w*", source))
    pastes = "##" in source or "%:%:" in source or "??" in source
    return [
        name
        for symbol, name in ((symbol, plain_symbol(symbol)) for symbol in contents.device_globals)
        if name in words or pastes or not _TOOLKIT_SYMBOL.match(symbol)
    ]


def too_large(nbytes: int) -> str:
    """The sentence on code beyond the limit."""
    return f"The compiled code has {nbytes / 2**20:.0f} MiB; the limit is {MAX_CUBIN_BYTES >> 20} MiB."


def _resolved(output: _Output, names: Sequence[str], compiler: str) -> CompiledCuda | CompileError:
    """Find the kernel behind every name."""
    if len(output.cubin) > MAX_CUBIN_BYTES:
        return CompileError(too_large(len(output.cubin)), "")
    contents = read_cubin(output.cubin)
    kernels: dict[str, CubinKernel] = {}
    for name in names:
        found = _kernels_named(name, contents, output.lowered)
        if len(found) != 1:
            what = "no kernel" if not found else "several kernels or template instances"
            hint = "" if not found else "; name one as it is instantiated, k<...>"
            return CompileError(f"{what} named {name!r} after compilation{hint}", output.log)
        kernels[name] = found[0]
    return CompiledCuda(output.cubin, contents, kernels, output.log, compiler)


def _kernels_named(name: str, contents: Cubin, lowered: dict[str, str]) -> list[CubinKernel]:
    if name in lowered:
        return [kernel for kernel in contents.kernels if kernel.symbol == lowered[name]]
    plain = [kernel for kernel in contents.kernels if plain_symbol(kernel.symbol) == plain_name(name)]
    if "<" not in name or len(plain) == 1:
        return plain
    wanted = _normal(name)
    return [kernel for kernel in plain if _normal(_declared(kernel.symbol)) == wanted]


def _declared(symbol: str) -> str:
    """``k<4, float>`` of the declaration ``void k<4, float>(float const*)``."""
    text = (demangled(symbol) or symbol).removeprefix("void ")
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "(" and depth == 0:
            return text[:index]
    return text


def _normal(name: str) -> str:
    """Without spaces, casts and literal suffixes, so that ``k<4u>`` and ``k<(unsigned int)4>`` meet."""
    name = re.sub(r"\((?:unsigned |signed )?(?:int|long|char|short|bool|long long)\)", "", name)
    name = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", name)
    return re.sub(r"\s+", "", name).replace("true", "1").replace("false", "0")


# NVRTC


def _nvrtc(
    source: str, instances: Sequence[str], arch: str, options: Sequence[str]
) -> _Output | CompileError:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # the loader raises its own kinds when the library is missing
        raise _NoCompiler(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    headers = stand_in_headers()
    program = _ask(
        nvrtc.nvrtcCreateProgram(
            source.encode(),
            b"kernels.cu",
            len(headers),
            [content.encode() for content in headers.values()],
            [name.encode() for name in headers],
        )
    )
    try:
        for name in instances:
            _ask(nvrtc.nvrtcAddNameExpression(program, name.encode()))
        return _nvrtc_compile(nvrtc, program, instances, _nvrtc_options(arch, options))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc_options(arch: str, options: Sequence[str]) -> list[bytes]:
    folders = [f"--include-path={folder}" for folder in include_folders()]
    fixed = [f"--gpu-architecture={arch}", f"--std={_STANDARD}", f"--pre-include={PRELUDE_NAME}"]
    return [option.encode() for option in (*fixed, *folders, *options)]


def _nvrtc_compile(
    nvrtc: Any, program: Any, instances: Sequence[str], options: list[bytes]
) -> _Output | CompileError:
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status) == _NVRTC_OUT_OF_MEMORY:
        raise MemoryError
    log_buffer = bytes(_ask(nvrtc.nvrtcGetProgramLogSize(program)))
    nvrtc.nvrtcGetProgramLog(program, log_buffer)
    log = clean_log(log_buffer.rstrip(b"\0").decode("utf-8", "replace"))
    if int(status) != 0:
        if re.search(r"(could not|cannot) open source file", log) and find_nvcc():
            raise _NoCompiler("the source includes a header that NVRTC does not know")
        return compile_error(log)
    size = _ask(nvrtc.nvrtcGetCUBINSize(program))
    if size > MAX_CUBIN_BYTES:
        return CompileError(too_large(size), log)
    cubin = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    lowered = {name: _ask(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode() for name in instances}
    return _Output(cubin, log, lowered)


def _ask(answer: tuple[Any, ...]) -> Any:
    """The value of an NVRTC answer ``(status, value)``."""
    if int(answer[0]) != 0:
        raise RuntimeError(f"NVRTC reported {answer[0]}")
    return answer[1] if len(answer) > 1 else None


# nvcc


def _nvcc(source: str, instances: Sequence[str], arch: str, options: Sequence[str]) -> _Output | CompileError:
    nvcc = find_nvcc()
    if nvcc is None:
        raise _NoCompiler("nvcc is not on this machine")
    with tempfile.TemporaryDirectory(prefix="htam-nvcc-") as folder:
        unit, cubin = Path(folder, "kernels.cu"), Path(folder, "kernels.cubin")
        unit.write_text(source + _instantiations(instances))
        command = [
            nvcc,
            "-cubin",
            f"-arch={arch}",
            f"-std={_STANDARD}",
            "-o",
            str(cubin),
            *options,
            str(unit),
        ]
        try:
            result = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=NVCC_SECONDS, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return CompileError(f"nvcc took more than {NVCC_SECONDS} seconds", "")
        text = (result.stdout + result.stderr).decode("utf-8", "replace").replace(folder + "/", "")
        if result.returncode != 0 and _NVCC_OUT_OF_MEMORY.search(text[-1 << 16 :]):
            raise MemoryError
        log = clean_log(text)
        if cubin.exists() and cubin.stat().st_size > MAX_CUBIN_BYTES:
            return CompileError(too_large(cubin.stat().st_size), log)
        if result.returncode != 0 or not cubin.exists():
            return compile_error(log)
        return _Output(cubin.read_bytes(), log)


def _instantiations(instances: Sequence[str]) -> str:
    """Host references that make nvcc emit the template instances; line numbers of the source stay."""
    lines = [f"static auto htam_instance_{index} = &{name};" for index, name in enumerate(instances)]
    return "\n#pragma nv_diag_suppress 177\n" + "\n".join(lines) + "\n"


def compile_error(log: str) -> CompileError:
    """A failed compilation; the sentence is the log's first error."""
    first = next((line for line in log.splitlines() if "error" in line.lower()), "")
    return CompileError(first.strip()[:300] or "the kernels do not compile", log)
