"""Binding: slots, views, steps, and the bounds on every quantity."""

from __future__ import annotations

import pytest

from gpu_eval.plans import (
    Allocate,
    BindLimits,
    Copy,
    Launch,
    LibraryCall,
    LibraryRefused,
    PlanError,
    Scalar,
    SlotKind,
    TensorSpec,
    bind,
    parse_plan,
)
from tests.plans.helpers import bound, plan_text

LAUNCH = 'launch("copy", grid={grid}, block={block}, args={args}, shared={shared})\nreturn x'


def launched(
    grid: str = "1", block: str = "1", args: str = "[]", shared: str = "0", **limits: object
) -> Launch:
    program = bound(
        LAUNCH.format(grid=grid, block=block, args=args, shared=shared),
        [(6, 4)],
        limits=BindLimits(**limits),  # type: ignore[arg-type]
    )
    (launch,) = program.launches()
    return launch


def test_example_binds_to_a_flat_program() -> None:
    """Slots know their owners, and a launch carries views and typed scalars in order."""
    body = """
y = empty_like(x)
launch("copy", grid=cdiv(x.numel, 1024), block=256,
       args=[x, params["linear.bias"], y, int32(x.numel), float32(0.5)])
return y
"""
    program = bound(body, [(64, 32)], {"linear.bias": TensorSpec((32,)), "unused": TensorSpec((3,), "int64")})
    kinds = {slot.name: slot.kind for slot in program.slots}
    assert kinds == {
        "x": SlotKind.INPUT,
        "linear.bias": SlotKind.PARAM,
        "unused": SlotKind.PARAM,
        "output0": SlotKind.OUTPUT,
    }
    (launch,) = program.launches()
    assert (launch.grid, launch.block) == ((2, 1, 1), (256, 1, 1))
    assert launch.args[3:] == (Scalar("int32", 2048), Scalar("float32", 0.5))
    assert program.outputs[0].shape == (64, 32)
    assert not program.returns_tuple
    assert program.launch_count == 1
    assert program.runner_bytes == 0


def test_scalar_inputs_are_plain_numbers() -> None:
    """An operator input that is a Python number has no slot."""
    plan = parse_plan(plan_text("return empty((n, 2))", inputs="x, n"))
    program = bind(plan, [TensorSpec((4,)), 7], {})
    assert program.inputs == (0, None)
    assert program.outputs[0].shape == (7, 2)


def test_wrong_number_of_inputs_is_refused() -> None:
    """The plan's parameters must be the operator's inputs."""
    plan = parse_plan(plan_text("return x", inputs="x, y"))
    with pytest.raises(PlanError, match="operator has 1 input"):
        bind(plan, [TensorSpec((4,))], {})


def test_views_are_offsets_and_strides() -> None:
    """reshape, transpose and slice move no bytes."""
    body = """
t = transpose(x, 0, -1)
s = slice(x, 0, 1, 3)
r = reshape(s, (-1, 2))
last = slice(x, -1, -3, None).shape[1]
launch("copy", grid=1, block=1, args=[r, int32(r.shape[0]), int32(t.shape[0]), int32(last)])
return empty(())
"""
    program = bound(body, [(6, 4)])
    (launch,) = program.launches()
    view = launch.args[0]
    assert (view.offset, view.shape, view.strides) == (4, (4, 2), (2, 1))  # type: ignore[union-attr]
    assert [scalar.value for scalar in launch.args[1:]] == [4, 4, 3]  # type: ignore[union-attr]
    assert not [step for step in program.steps if isinstance(step, Copy)]
    assert program.outputs[0].shape == ()


def test_launch_takes_contiguous_tensors_only() -> None:
    """A strided view is an error at the launch; contiguous() inserts one copy."""
    body = 't = transpose(x, 0, 1)\nlaunch("copy", grid=1, block=1, args=[{}])\nreturn x'
    with pytest.raises(PlanError, match=r"argument 0 is not contiguous; call contiguous\(\) first") as caught:
        bound(body.format("t"), [(6, 4)])
    assert (caught.value.line, caught.value.column) == (8, 5)
    program = bound(body.format("contiguous(t)"), [(6, 4)])
    copies = [step for step in program.steps if isinstance(step, Copy) and step.source.shape == (4, 6)]
    assert len(copies) == 1


def test_contiguous_of_a_contiguous_tensor_copies_nothing() -> None:
    """contiguous() is free where it has nothing to do, sizes of 1 included."""
    program = bound(
        "y = contiguous(transpose(x, 0, 1))\nlaunch('copy', grid=1, block=1, args=[y])\nreturn empty(())",
        [(1, 4)],
    )
    assert not [step for step in program.steps if isinstance(step, Copy)]


def test_reshape_of_a_strided_view_follows_torch() -> None:
    """Views that exist are views; those that would need a copy are refused."""
    assert bound("return reshape(transpose(x, 0, 1), (4, 2, 3))", [(6, 4)]).outputs[0].shape == (4, 2, 3)
    with pytest.raises(PlanError, match="without a copy"):
        bound("return reshape(transpose(x, 0, 1), (24,))", [(6, 4)])


@pytest.mark.parametrize(
    "expression",
    [
        "reshape(x, (5, 5))",
        "reshape(x, (-1, -1))",
        "reshape(x, (-1, 7))",
        "reshape(x, (-2, 12))",
        "reshape(x, 'a')",
        "transpose(x, 0, 2)",
        "transpose(x, 0, 'a')",
        "slice(x, 2, 0, 1)",
        "slice(x, 0, 0.5, 1)",
        "slice(x, 0, 0)",
        "contiguous(3)",
        "empty_like((3,))",
        "empty((-1,))",
        "empty((2**62, 2**62))",
        "empty((1,) * 2)",
        "empty((1,), dtype='float')",
        "empty((1,), dtype=3)",
        "empty((1,), 'float32', 3)",
        "empty((1.5,))",
        "empty((1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))",
        "zeros()",
        "params['nope']",
        "params[0]",
        "params",
        "3",
        "(x, 3)",
        "()",
        "None",
        "int32(3)",
        "lib.matmul(x, params)",
        "lib.matmul(x, x, out=x)",
    ],
)
def test_refused_values_name_their_place(expression: str) -> None:
    """Every wrong shape, dtype, argument and result is one sentence with a place."""
    with pytest.raises(PlanError) as caught:
        bound(f"return {expression}", [(6, 4)], infer_library=lambda *_: (TensorSpec((1,)),))
    assert caught.value.line > 0
    assert "\n" not in caught.value.message


def test_missing_parameter_lists_what_there_is() -> None:
    """The sentence helps to repair a misspelt name."""
    with pytest.raises(PlanError, match=r"it has: linear\.weight"):
        bound("return params['weight']", params={"linear.weight": TensorSpec((2, 2))})


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("grid", "0", "grid.x = 0"),
        ("grid", "-1", "grid.x = -1"),
        ("grid", "2**31", "grid.x"),
        ("grid", "(1, 65536)", "grid.y"),
        ("grid", "(1, 1, 70000)", "grid.z"),
        ("grid", "(1, 1, 1, 1)", "one to three"),
        ("grid", "()", "one to three"),
        ("grid", "1.5", "tuple of integers"),
        ("block", "0", "block.x = 0"),
        ("block", "1025", "block.x = 1025"),
        ("block", "(32, 33)", "1056 threads"),
        ("block", "(1, 1, 65)", "block.z"),
        ("shared", "-1", "shared=-1"),
        ("shared", "10**6", "shared=1000000"),
        ("shared", "1.5", "shared is an integer"),
        ("args", "3", "args is a list"),
        ("args", "[3]", "bare number"),
        ("args", "['a']", "a string"),
        ("args", "[None]", "None"),
        ("args", "[(x,)]", "a tuple"),
    ],
)
def test_launch_bounds(what: str, value: str, words: str) -> None:
    """Grid, block, shared bytes and arguments are checked before any device sees them."""
    with pytest.raises(PlanError) as caught:
        launched(**{what: value})
    assert words in caught.value.message


def test_launch_limits_come_from_the_device() -> None:
    """A device with other bounds gives other answers."""
    assert launched(block="(64, 64)", max_threads_per_block=4096, max_block=(4096, 4096, 4096)).block == (
        64,
        64,
        1,
    )
    assert launched(shared="1000").shared == 1000


def test_launch_needs_its_keywords() -> None:
    """A forgotten or misspelt keyword is named."""
    for call in (
        'launch("copy", 1, 1, [x])',
        'launch("copy", grid=1, args=[x])',
        'launch("copy", grid=1, block=1, threads=3)',
    ):
        with pytest.raises(PlanError, match="launch:"):
            bound(call + "\nreturn x")
    with pytest.raises(PlanError, match="not an integer"):
        bound("launch(3, grid=1, block=1)\nreturn x".replace("launch(3", "launch(3"))


def test_shared_bytes_are_for_cuda() -> None:
    """OpenCL kernels declare their own local memory."""
    source = "kernel void copy(global float* x) {}"
    body = 'launch("copy", grid=1, block=1, args=[x], shared=64)\nreturn x'
    with pytest.raises(PlanError, match="__local"):
        bound(body, kernels=source, language="opencl")


def test_memory_and_steps_are_bounded() -> None:
    """A plan can neither allocate without end nor grow without end."""
    with pytest.raises(PlanError, match="allocates"):
        bound("return empty((1 << 20, 1 << 20))")
    with pytest.raises(PlanError, match="allocates"):
        bound("for i in range(100):\n    y = empty((1 << 28,))\nreturn y")
    with pytest.raises(PlanError, match="steps"):
        bound("for i in range(5000):\n    launch('copy', grid=1, block=1)\nreturn x")
    with pytest.raises(PlanError, match="tuple of more"):
        bound("t = (1, 2, 3, 4)\nfor i in range(40):\n    t = t + t\nreturn x")


def test_zeros_are_cleared_in_every_call() -> None:
    """zeros() is a step, so an accumulating kernel starts from zero each time."""
    program = bound("y = zeros((3,), dtype='int32')\nreturn y")
    (step,) = program.steps
    assert isinstance(step, Allocate)
    assert step.zero
    assert step.spec == TensorSpec((3,), "int32")


def test_outputs_own_their_slots() -> None:
    """Whatever forward returns, each output is a whole slot that the judge can put its memory under."""
    views = "slice(y, 0, 1, 3), transpose(y, 0, 1), reshape(y, (4, 6))"
    body = f"y = empty_like(x)\nreturn y, y, x, {views}, params['w']"
    program = bound(body, [(6, 4)], {"w": TensorSpec((2,))})
    assert program.returns_tuple
    assert len(set(program.output_slots)) == 7
    for view in program.outputs:
        slot = program.slots[view.slot]
        assert slot.kind is SlotKind.OUTPUT
        assert view.contiguous
        assert (view.offset, view.numel) == (0, slot.spec.numel)
    assert [view.shape for view in program.outputs] == [(6, 4), (6, 4), (6, 4), (2, 4), (4, 6), (4, 6), (2,)]
    assert len([step for step in program.steps if isinstance(step, Copy)]) == 6


def test_reshaped_result_needs_no_copy() -> None:
    """Returning a reshaped fresh tensor is free, and the output has the returned shape."""
    program = bound("y = empty((24,))\nreturn reshape(y, (6, 4))")
    assert not [step for step in program.steps if isinstance(step, Copy)]
    assert program.slots[program.outputs[0].slot].spec == TensorSpec((6, 4))


def test_prepare_runs_once_and_replaces_params() -> None:
    """prepare's work is kept apart, and forward sees its dict and nothing else."""
    text = plan_text('launch("copy", grid=1, block=1, args=[params["w"], int32(params["k"])])\nreturn x')
    prepare = 'def prepare(params):\n    return {"w": contiguous(transpose(params["w"], 0, 1)), "k": 3}\n'
    program = bind(parse_plan(text + prepare), [TensorSpec((4,))], {"w": TensorSpec((2, 3))})
    assert [type(step) for step in program.prepare_steps] == [Allocate, Copy]
    (launch,) = program.launches()
    view = launch.args[0]
    assert view.shape == (3, 2)  # type: ignore[union-attr]
    assert program.slots[view.slot].kind is SlotKind.PREPARED  # type: ignore[union-attr]
    assert launch.args[1] == Scalar("int32", 3)
    other = text.replace('params["w"]', 'params["other"]')
    with pytest.raises(PlanError, match="it has: k, w"):
        bind(
            parse_plan(other + prepare),
            [TensorSpec((4,))],
            {"w": TensorSpec((2, 3)), "other": TensorSpec(())},
        )


@pytest.mark.parametrize("value", ["3", "params['w']", "{'w': int32(3)}", "{'w': {'a': 1}}"])
def test_prepare_returns_a_plain_dict(value: str) -> None:
    """What prepare keeps are tensors and numbers under names."""
    text = plan_text("return x") + f"def prepare(params):\n    return {value}\n"
    with pytest.raises(PlanError, match="prepare"):
        bind(parse_plan(text), [TensorSpec((4,))], {"w": TensorSpec((2, 3))})


def test_library_calls_are_inferred_and_recorded() -> None:
    """Result shapes come from the caller's rules; the call's tensors stay views."""
    seen = []

    def infer(op: str, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[TensorSpec, ...]:
        seen.append((op, args, kwargs))
        return (TensorSpec((4, 4)),) if op == "matmul" else (TensorSpec((4,)), TensorSpec((4,), "int64"))

    body = "m = lib.matmul(transpose(x, 0, 1), x)\nvalues, where = lib.max(m, dim=1)\nreturn values, where"
    program = bound(body, [(6, 4)], infer_library=infer)
    assert seen == [
        ("matmul", (TensorSpec((4, 6)), TensorSpec((6, 4))), {}),
        ("max", (TensorSpec((4, 4)),), {"dim": 1}),
    ]
    assert program.library_calls == ["matmul", "max"]
    calls = [step for step in program.steps if isinstance(step, LibraryCall)]
    assert calls[1].outs[1].dtype == "int64"
    assert program.launch_count == 0


def test_refused_library_call_has_its_place() -> None:
    """Torch's own refusal becomes a sentence with a line."""

    def infer(op: str, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[TensorSpec, ...]:
        raise LibraryRefused("lib.matmul: shapes do not fit")

    with pytest.raises(PlanError, match="shapes do not fit") as caught:
        bound("return lib.matmul(x, x)", infer_library=infer)
    assert (caught.value.line, caught.value.column) == (7, 12)


def test_plan_without_a_return_is_refused() -> None:
    """A path that ends without a result is found at bind time."""
    with pytest.raises(PlanError, match="ends without a return"):
        bound("if x.numel > 100:\n    return x")
