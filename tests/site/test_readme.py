"""The README keeps up with the code."""

from __future__ import annotations

import re

from django.conf import settings

README = (settings.BASE_DIR / "README.md").read_text()


def test_every_environment_variable_is_documented() -> None:
    """A setting that nobody can find does not exist; one that is gone must leave the table."""
    code = "".join(path.read_text() for path in (settings.BASE_DIR / "htam_site").rglob("*.py"))
    read = set(re.findall(r"env\.\w+\(\s*\"(HTAM_\w+)\"", code)) | {"HTAM_SECRET_KEY"}
    read |= {"HTAM_SANDBOX"}  # gpu_eval reads it itself: it knows no Django
    listed = set(re.findall(r"^\| `(HTAM_\w+)`", README, re.MULTILINE))
    assert listed == read | {"HTAM_TEST_POSTGRES"}


def test_linked_files_exist() -> None:
    """Pictures and links lead somewhere."""
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (settings.BASE_DIR / target).exists(), target


def test_make_targets_exist() -> None:
    """The commands that the README names are there."""
    makefile = (settings.BASE_DIR / "Makefile").read_text()
    for target in set(re.findall(r"`?make (\w+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
