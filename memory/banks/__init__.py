"""Whole banks: copies, comparisons, and taking parts of one over into another."""

from memory.banks.cloning import clone_bank
from memory.banks.comparing import compare_banks
from memory.banks.merging import merge_bank

__all__ = ["clone_bank", "compare_banks", "merge_bank"]
