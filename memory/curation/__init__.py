"""What curators do to a bank: create, edit, retire, merge, split, move. Each is one change in its history."""

from memory.curation.dividing import move_strategy, split_direction, split_strategy
from memory.curation.merging import merge_directions, merge_strategies
from memory.curation.parts import create_part, edit_bank, edit_part

__all__ = [
    "create_part",
    "edit_bank",
    "edit_part",
    "merge_directions",
    "merge_strategies",
    "move_strategy",
    "split_direction",
    "split_strategy",
]
