"""Compiled code as a message between processes, and back."""

from __future__ import annotations

import base64
from typing import Any

from gpu_eval.devices.base import CompiledCode


def code_message(code: CompiledCode) -> dict[str, Any]:
    """JSON of ``code``; the bytes in base64."""
    return {
        "code": base64.b64encode(code.code).decode(),
        "symbols": code.symbols,
        "log": code.log,
        "compiler": code.compiler,
        "device_globals": list(code.device_globals),
        "seconds": code.seconds,
    }


def code_of(message: dict[str, Any]) -> CompiledCode:
    """The code of a message. Raises ValueError when it is none: its sender may have been taken over."""
    try:
        return CompiledCode(
            code=base64.b64decode(message["code"], validate=True),
            symbols={str(name): str(symbol) for name, symbol in message["symbols"].items()},
            log=str(message["log"]),
            compiler=str(message["compiler"]),
            device_globals=tuple(map(str, message["device_globals"])),
            seconds=float(message["seconds"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not compiled code: {type(error).__name__}") from error
