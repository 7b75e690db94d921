"""The words that the reports of a verification share."""

from __future__ import annotations

from oomph.diagnose.verify.model import Status, Verification


def headline(found: Verification) -> str:
    """One sentence: verified, not verified because of what, or what could not be told."""
    failed, unknown, passed = (found.of(status) for status in (Status.FAILED, Status.UNKNOWN, Status.PASSED))
    if failed:
        names = ", ".join(dict.fromkeys(answer.name for answer in failed))
        also = f", {_could_not(len(unknown))}" if unknown else ""
        return f"Not verified: {_checks(len(failed))} failed ({names}){also}"
    if not passed:
        return "Not verified: nothing could be told" if unknown else "Not verified: nothing was checked"
    if unknown:
        names = ", ".join(dict.fromkeys(answer.name for answer in unknown))
        counted = " and counts as failed (--strict)" if found.strict else ""
        return f"Nothing failed, but {_could_not(len(unknown))} ({names}){counted}; {len(passed)} passed"
    return f"Verified: {_checks(len(passed))} passed" if len(passed) > 1 else "Verified: the check passed"


def _checks(count: int) -> str:
    return "1 check" if count == 1 else f"{count} checks"


def _could_not(count: int) -> str:
    return f"{_checks(count)} could not be told"
