"""Kernels without a language model: an operator's graph, a schedule, and moves between schedules.

Pure Python: nothing here imports torch, numpy or Django.
"""

from optimizer.recipes.api import Coverage, coverage, generate_plan, naive_schedule
from optimizer.recipes.facts import schedule_facts
from optimizer.recipes.lessons import leads_to, recipe_between, setting
from optimizer.recipes.moves import MOVES, Move, NotApplicable, RecipeFacts, applicable_moves, apply_recipe
from optimizer.recipes.repair import repair
from optimizer.recipes.schedule import Schedule
from optimizer.recipes.unsupported import Unsupported

__all__ = [
    "MOVES",
    "Coverage",
    "Move",
    "NotApplicable",
    "RecipeFacts",
    "Schedule",
    "Unsupported",
    "applicable_moves",
    "apply_recipe",
    "coverage",
    "generate_plan",
    "leads_to",
    "naive_schedule",
    "recipe_between",
    "repair",
    "schedule_facts",
    "setting",
]
