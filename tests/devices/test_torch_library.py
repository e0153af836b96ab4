"""Library calls: torch's own shape rules, and nothing that writes in place."""

from __future__ import annotations

import pytest

from gpu_eval.plans import LibraryRefused, TensorSpec
from gpu_eval.plans.library import LIBRARY

torch = pytest.importorskip("torch")

X = TensorSpec((8, 16, 10, 10))
W = TensorSpec((4, 16, 3, 3))
V = TensorSpec((16,))


@pytest.fixture(scope="module", name="infer")
def _infer() -> object:
    from gpu_eval.devices.torch_library import infer

    return infer


def test_every_listed_operation_exists(infer: object) -> None:
    """The allow-list names only what this torch has."""
    from gpu_eval.devices.torch_library import function

    assert infer
    assert all(callable(function(op)) for op in LIBRARY.values())


@pytest.mark.parametrize("name", LIBRARY)
def test_listed_operations_neither_write_nor_draw(name: str) -> None:
    """No name of torch's in-place, random, file or callable operations can slip into the list."""
    assert not name.endswith("_")
    for word in (
        "rand",
        "dropout",
        "bernoulli",
        "multinomial",
        "load",
        "save",
        "compile",
        "from",
        "apply",
        "map",
    ):
        assert word not in name.split("_")


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "expected"),
    [
        ("conv2d", (X, W, None, 2, 1), {}, [((8, 4, 5, 5), "float32")]),
        ("linear", (TensorSpec((3, 5)), TensorSpec((7, 5))), {}, [((3, 7), "float32")]),
        ("sum", (X,), {"dim": (2, 3), "keepdim": True}, [((8, 16, 1, 1), "float32")]),
        ("sum", (X,), {"dim": 1, "dtype": "float64"}, [((8, 10, 10), "float64")]),
        ("max", (X,), {"dim": 1}, [((8, 10, 10), "float32"), ((8, 10, 10), "int64")]),
        ("layer_norm", (X, (10, 10)), {}, [((8, 16, 10, 10), "float32")]),
        ("batch_norm", (X, V, V, V, V), {}, [((8, 16, 10, 10), "float32")]),
        ("batch_norm", (X, None, None, V, V, True), {}, [((8, 16, 10, 10), "float32")]),
        ("gelu", (X,), {"approximate": "tanh"}, [((8, 16, 10, 10), "float32")]),
        ("einsum", ("bchw,dcij->bd", X, W), {}, [((8, 4), "float32")]),
        ("cat", ((X, X),), {"dim": 1}, [((8, 32, 10, 10), "float32")]),
        ("mean", (X,), {}, [((), "float32")]),
        ("where", (TensorSpec((4,), "bool"), 1.0, TensorSpec((4,))), {}, [((4,), "float32")]),
        ("scaled_dot_product_attention", (X, X, X), {"is_causal": True}, [((8, 16, 10, 10), "float32")]),
    ],
)
def test_results_have_torchs_shapes(infer, op, args, kwargs, expected) -> None:  # type: ignore[no-untyped-def]
    """Arguments are torch's, in torch's order; shapes and dtypes come out as torch makes them."""
    assert [(spec.shape, spec.dtype) for spec in infer(op, args, kwargs)] == expected


@pytest.mark.parametrize(
    ("op", "args", "kwargs"),
    [
        ("matmul", (X, W), {}),
        ("matmul", (X,), {}),
        ("sum", (X,), {"dim": 9}),
        ("sum", (X,), {"dtype": "float99"}),
        ("gelu", (X,), {"approximate": "roughly"}),
        ("gelu", (X,), {"nothing": 3}),
        ("relu", (X, True), {}),
        ("leaky_relu", (X, 0.1, True), {}),
        ("celu", (X, 1.0, True), {}),
        ("batch_norm", (X, V, V, V, V, True), {}),
        ("instance_norm", (X, V, V), {}),
        ("embedding", (TensorSpec((3,), "int64"), TensorSpec((5, 2))), {"max_norm": 1.0}),
        ("topk", (X, 10**12), {}),
    ],
)
def test_refusals_are_one_sentence(infer, op, args, kwargs) -> None:  # type: ignore[no-untyped-def]
    """What torch refuses, and what would write into inputs or weights, is one clear line."""
    with pytest.raises(LibraryRefused) as caught:
        infer(op, args, kwargs)
    assert str(caught.value).startswith(f"lib.{op}: ")
    assert "\n" not in str(caught.value)
