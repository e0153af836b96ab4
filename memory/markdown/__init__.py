"""A bank as one Markdown file: a section a direction, tables of transitions, readable in a code review.

    text = write_markdown(export_bank(bank))
    document = read_markdown(text)              # the same document again; BankError names the line

The form is exact: whatever a bank file can hold comes back as it was. See `memory.markdown.words` for the few escapes.
"""

from memory.markdown.reading import is_markdown, read_markdown
from memory.markdown.writing import write_markdown

__all__ = ["is_markdown", "read_markdown", "write_markdown"]
