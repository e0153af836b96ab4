"""Kernel plans: one text file in Python syntax that is parsed and interpreted, never executed.

    plan = parse_plan(text)                              # PlanError with line and column
    program = bind(plan, inputs, params)                 # fixed shapes: a flat list of steps

Pure Python: importing this loads neither numpy nor torch nor a device library.
"""

from gpu_eval.plans.binder import InferLibrary, bind
from gpu_eval.plans.errors import LibraryRefused, PlanError
from gpu_eval.plans.limits import BindLimits
from gpu_eval.plans.parser import Plan, parse_plan
from gpu_eval.plans.program import (
    Allocate,
    Copy,
    Launch,
    LibraryCall,
    Program,
    Slot,
    SlotKind,
    SlotView,
)
from gpu_eval.plans.specs import DTYPE_BYTES, Scalar, TensorSpec

__all__ = [
    "DTYPE_BYTES",
    "Allocate",
    "BindLimits",
    "Copy",
    "InferLibrary",
    "Launch",
    "LibraryCall",
    "LibraryRefused",
    "Plan",
    "PlanError",
    "Program",
    "Scalar",
    "Slot",
    "SlotKind",
    "SlotView",
    "TensorSpec",
    "bind",
    "parse_plan",
]
