"""Failure texts that are not a failure: examples in a guide, tests that passed, commit messages."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from oomph.diagnose.incidents import Group
from oomph.evidence.model import Document, Evidence

_EXAMPLE = re.compile(
    r"like this|looks? like|for example|e\.g\.|such as|a message|typical(?:ly)?|versions? prints?|"
    r"you (?:will|may|might) see|the following error",
    re.IGNORECASE,
)
_PASSED = re.compile(r"^=+ .{0,80}?\d+ passed.{0,80}? in [\d.]+ ?s\b.{0,40}=+$")
_FAILED = re.compile(r"\d+ (?:failed|errors?)\b")
_UNITTEST_OK = re.compile(r"^OK(?: \(.{1,80}\))?$")
_RAN = re.compile(r"^Ran \d+ tests? in ")
#: A row of an issue tracker's list: number, title, columns.
_ISSUE = re.compile(r"\s{0,4}#\d{1,7}\s{1,6}\S")
#: A question or an answer: data sets, prompts and samples hold error messages, too.
_DIALOGUE = re.compile(
    r"\W{0,6}(?:Q|A|Question|Answer|User|Assistant|Human|Prompt|Response|Instruction|Sample|Completion)"
    r" ?(?:\d{1,4})?\W{0,3}:\W"
)
_COMMIT = re.compile(r"^commit [0-9a-f]{7,40}\b")
_AUTHOR = re.compile(r"^Author: ")


def talked_about(evidence: Evidence, one: Group) -> str:
    """Why the texts of this group are no failure ("" when nothing says so). A traceback of its own always counts."""
    document = evidence.documents[one.start.document]
    if evidence.derived(_Sessions).passed(one.start.document, one.start.line):
        return "it is printed inside a test session that passed"
    if one.traceback is not None and one.traceback.frames:
        return ""
    if _DIALOGUE.match(document.lines[one.start.line].text) and not any(
        failure.raised for failure in one.prints
    ):
        return "it stands in a text that a person or a model wrote"
    if _ISSUE.match(document.lines[one.start.line].text):
        return "it stands in a list of issues"
    if _commit_text(document, one.start.line):
        return "it stands in a commit message"
    if _example(document, one.start.line):
        return "the text around it gives it as an example"
    return ""


class _Sessions:
    """Where test sessions end, and whether all tests passed, in the documents that hold failure texts."""

    def __init__(self, evidence: Evidence) -> None:
        self._ends: dict[int, list[tuple[int, bool]]] = {}
        for number in {failure.position.document for failure in evidence.failures}:
            self._ends[number] = list(_session_ends(evidence.documents[number]))

    def passed(self, document: int, at: int) -> bool:
        """True when the first session that ends at or behind line `at` passed."""
        ends = self._ends.get(document, [])
        index = bisect_left(ends, (at, False))
        return index < len(ends) and ends[index][1]


def _session_ends(document: Document) -> Iterator[tuple[int, bool]]:
    for index, line in enumerate(document.lines):
        if "==" not in line.text and "OK" not in line.text:
            continue
        text = line.text.strip()
        if text[:2] == "==" and _PASSED.match(text):
            yield index, _FAILED.search(text) is None
        elif text == "OK" or (text.startswith("OK (") and _UNITTEST_OK.match(text)):
            before = document.lines[max(0, index - 4) : index]
            if any(_RAN.match(line.text) for line in before):
                yield index, True


def _commit_text(document: Document, at: int) -> bool:
    if not document.lines[at].text.startswith("    "):
        return False
    for index in range(at - 1, max(-1, at - 80), -1):
        text = document.lines[index].text
        if _COMMIT.match(text):
            following = document.lines[index + 1 : index + 4]
            return any(_AUTHOR.match(line.text) for line in following)
        if text.strip() and not text.startswith((" ", "Author", "Date", "Merge", "Commit")):
            return False
    return False


def _example(document: Document, at: int) -> bool:
    """True when one of the last lines of text before it introduces an example."""
    seen = 0
    for index in range(at - 1, max(-1, at - 8), -1):
        text = document.lines[index].text.strip()
        if not text or text.startswith(("```", "~~~")):
            continue
        if _EXAMPLE.search(text) and text.endswith((":", ".")):
            return True
        seen += 1
        if seen >= 2:
            return False
    return False
