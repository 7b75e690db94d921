"""Versions as people write them: numbers, or the start of a commit's hash."""

from __future__ import annotations

from oomph.job.model import Framework


def text(framework: Framework, library: str) -> str:
    """The version of a library as written ("4.45.2", "9dec370"); "" where it is not known."""
    return next((version for name, version in framework.versions if name == library), "")


def below(framework: Framework, library: str, *numbers: int) -> bool | None:
    """Whether a library is older than a version; None where its version is not known as numbers."""
    if "." not in text(framework, library):
        return None  # a commit's hash may begin with digits, and is no number
    version = framework.version(library)
    return None if version is None else version < numbers
