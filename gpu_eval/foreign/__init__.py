"""Somebody else's kernels: KernelBench files with a class `ModelNew`, judged like plans but trusted in nothing.

Their host code runs in a process of its own (`gpu_eval.foreign.host`). What that process says of itself (its
clock, its types, that it is done) is never what counts: the parent's clock bounds its times, the judge reads its
outputs while every thread of it stands still, and PyTorch's time is taken again once it is gone.
"""
