"""The answer as JUnit XML, as CI services read it: one test case for each answer.

There is no standard; the form is that of Jenkins' and GitLab's readers: `testsuites/testsuite/testcase` with `failure`
or `skipped` in it. What could not be told is skipped with its reason, and with `--strict` a failure.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from oomph.diagnose.verify.model import Answer, Status, Verification
from oomph.report.clean import clean, without_commands
from oomph.report.verify.words import headline


def render_junit(found: Verification) -> str:
    """The whole document, ending in a newline."""
    failures = sum(_fails(answer, found.strict) for answer in found.answers)
    skipped = sum(_skips(answer, found.strict) for answer in found.answers)
    counts = f'tests="{len(found.answers)}" failures="{failures}" errors="0" skipped="{skipped}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="oomph verify" {counts}>',
        f"  <testsuite name={_attribute(found.run or found.path)} {counts}>",
        "    <properties>",
        f'      <property name="outcome" value={_attribute(found.outcome)}/>',
        f'      <property name="verdict" value={_attribute(found.verdict.value)}/>',
        "    </properties>",
    ]
    for answer in found.answers:
        lines += _case(answer, found.strict)
    said = "\n".join([headline(found), *found.notes])
    lines += [f"    <system-out>{escape(clean(said))}</system-out>", "  </testsuite>", "</testsuites>", ""]
    return without_commands("\n".join(lines))


def _case(answer: Answer, strict: bool) -> list[str]:
    head = (
        f"    <testcase classname={_attribute(f'oomph.verify.{answer.check}')} name={_attribute(answer.name)}"
    )
    text = clean(answer.text)
    if _fails(answer, strict):
        kind = _attribute(answer.status.value)
        return [
            f"{head}>",
            f"      <failure type={kind} message={_attribute(text)}>{escape(text)}</failure>",
            "    </testcase>",
        ]
    if _skips(answer, strict):
        reason = text if answer.status is Status.SKIPPED else f"could not tell: {text}"
        return [f"{head}>", f"      <skipped message={_attribute(reason)}/>", "    </testcase>"]
    return [f"{head}>", f"      <system-out>{escape(text)}</system-out>", "    </testcase>"]


def _fails(answer: Answer, strict: bool) -> bool:
    return answer.status is Status.FAILED or (strict and answer.status is Status.UNKNOWN)


def _skips(answer: Answer, strict: bool) -> bool:
    return answer.status is Status.SKIPPED or (not strict and answer.status is Status.UNKNOWN)


def _attribute(text: str) -> str:
    return quoteattr(clean(text), {"\n": "&#10;", "\t": "&#9;"})
