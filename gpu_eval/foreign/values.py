"""Constructor arguments as JSON: what the operator's `get_init_inputs` returned, for a process that never sees
the operator."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from gpu_eval.errors import UnusableInput

if TYPE_CHECKING:
    import torch

MOST_BYTES = 32 * 1024**2  # of all tensors in base64: they travel in one message


def encode(value: Any) -> Any:
    """``value`` as JSON that `decode` reads back. Raises UnusableInput for a kind that cannot be sent."""
    import torch

    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, torch.Tensor):
        return {"tensor": encode_tensor(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        return {"list": [encode(item) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    raise UnusableInput(
        f"get_init_inputs() holds a {type(value).__name__}, which cannot be given to a foreign module."
    )


def decode(data: Any) -> Any:
    """The inverse of `encode`; tensors on the CPU."""
    import torch

    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind == "float":
        return float(content)
    if kind == "tensor":
        return decode_tensor(content)
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "dict":
        return {decode(key): decode(item) for key, item in content}
    items = [decode(item) for item in content]
    return items if kind == "list" else tuple(items)


def encode_tensor(value: torch.Tensor) -> dict[str, Any]:
    """Shape, dtype and bytes. Raises UnusableInput when there are too many."""
    import torch

    flat = value.detach().cpu().contiguous().view(-1)
    nbytes = flat.numel() * flat.element_size()
    if nbytes > MOST_BYTES:
        raise UnusableInput(
            f"get_init_inputs() holds a tensor of {nbytes / 1e6:.0f} MB, more than the "
            f"{MOST_BYTES / 1e6:.0f} MB that a foreign module can be given."
        )
    raw = flat.view(torch.uint8).numpy().tobytes() if nbytes else b""
    return {
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "bytes": base64.b64encode(raw).decode(),
    }


def decode_tensor(data: dict[str, Any]) -> torch.Tensor:
    """A tensor of its own memory."""
    import torch

    dtype, raw = getattr(torch, data["dtype"]), bytearray(base64.b64decode(data["bytes"]))
    if not raw:
        return torch.empty(data["shape"], dtype=dtype)
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).view(data["shape"])


def random_state() -> list[str]:
    """Torch's generators as they are: the CPU's and, where one is used, the GPU's."""
    import torch

    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state())
    return [base64.b64encode(state.numpy().tobytes()).decode() for state in states]


def set_random_state(states: list[str]) -> None:
    """Put back what `random_state` gave, in whatever process."""
    import torch

    tensors = [torch.frombuffer(bytearray(base64.b64decode(s)), dtype=torch.uint8) for s in states]
    torch.set_rng_state(tensors[0])
    if len(tensors) > 1:
        torch.cuda.set_rng_state(tensors[1])
