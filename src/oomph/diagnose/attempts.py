"""Restarts by the launcher: a failure of one attempt is past when a later attempt of the same launch ran well."""

from __future__ import annotations

from collections import defaultdict

from oomph.evidence.model import Document, Evidence

#: So many progress lines show that the later attempt got into training.
_ENOUGH = 3


def ran_later(evidence: Evidence, document: int) -> str:
    """How it is known that an attempt behind that of `document` ran well; "" when it did not, or there is none."""
    attempt = evidence.documents[document].attempt
    if attempt is None:
        return ""
    return evidence.derived(_Attempts).good_after(attempt)


class _Attempts:
    """The attempts of the input (`attempt_<k>` of torchrun's log tree), and how each went."""

    def __init__(self, evidence: Evidence) -> None:
        by_attempt: dict[int, list[Document]] = defaultdict(list)
        for document in evidence.documents:
            if document.attempt is not None:
                by_attempt[document.attempt].append(document)
        places = [failure.position for failure in evidence.failures]
        places += [found.position for found in evidence.exits if found.code not in (0, None)]
        places += [traceback.start for traceback in evidence.tracebacks]
        failed = {evidence.documents[place.document].attempt for place in places}
        self._good = {
            attempt: said
            for attempt, documents in by_attempt.items()
            if attempt not in failed and (said := _how_it_went(evidence, documents))
        }

    def good_after(self, attempt: int) -> str:
        return next((said for later, said in sorted(self._good.items()) if later > attempt), "")


def _how_it_went(evidence: Evidence, documents: list[Document]) -> str:
    for document in documents:
        ends = evidence.facts_in(document.index, "success")
        if ends:
            return f"the launcher's attempt {document.attempt} ended well ({ends[-1].quote.text[:80]})"
    for document in documents:
        steps = evidence.facts_in(document.index, "progress")
        if len(steps) >= _ENOUGH:
            return f"the launcher's attempt {document.attempt} ran on (to {steps[-1].quote.text[:80]})"
    return ""
