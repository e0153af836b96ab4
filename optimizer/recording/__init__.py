"""Records outcome tables on a device: which strategy leads where, and what the evaluator says of each plan.

`python -m optimizer.recording --help`. Needs the evaluator and the recipes, no Django: it runs on a GPU host.
"""
