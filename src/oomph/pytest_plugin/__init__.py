"""The pytest plugin: limits for the memory of a test, on a GPU, on a traced one, or on the CPU counted as one.

    @pytest.mark.oomph(peak="12 GiB", phase="backward")
    def test_training_step(oomph_run): ...

It is loaded in every session of an environment that has oomph, so it imports nothing but pytest until a test asks for
it. docs/pytest.md is its page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oomph.pytest_plugin.run import OomphRun

DEVICES = ("auto", "cuda", "trace", "cpu")
MARK = (
    "oomph(peak, phase=None, counter='allocated', gpu=None): fail if more than `peak` (\"12 GiB\", or bytes) is "
    "allocated (or reserved) in `phase`, or in any phase without it; `gpu` is what is traced where there is none"
)
#: Names of a test report's properties (JUnit XML has them too).
DEVICE_PROPERTY, PEAK_PROPERTY = "oomph_device", "oomph_peak_bytes"
_RUN: pytest.StashKey[OomphRun] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--oomph-device` and `--oomph-gpu`, on the command line or in the ini file."""
    group = parser.getgroup("oomph", "memory of tests (oomph)")
    group.addoption(
        "--oomph-device",
        choices=DEVICES,
        help="Where tests with the oomph mark are measured: cuda (a real GPU), trace (fake tensors, no GPU needed), "
        "cpu (counted as if it were a GPU). Default: auto, which is cuda where there is one, else trace.",
    )
    group.addoption(
        "--oomph-gpu", metavar="NAME", help="The GPU that is traced where there is none (a100-80gb)."
    )
    parser.addini("oomph_device", "As --oomph-device.", default="auto")
    parser.addini("oomph_gpu", "As --oomph-gpu.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known, also where marks are strict."""
    config.addinivalue_line("markers", MARK)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mark that makes no sense is an error before anything runs."""
    for item in items:
        marks = list(item.iter_markers("oomph"))
        if marks:
            from oomph.pytest_plugin.limits import limit_of

            for mark in marks:
                try:
                    limit_of(mark.args, mark.kwargs)
                except ValueError as error:
                    raise pytest.UsageError(f"{item.nodeid}: {error}") from None


@pytest.fixture
def oomph_run(request: pytest.FixtureRequest) -> OomphRun:
    """The measuring of this test, whether it has the mark or not: `phase(name)`, `watch(model, optimizer)`, `device`.
    It begins with the test's own code, after all fixtures."""
    return _run_of(request.node)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measures the test's own code, and fails it where a limit is passed."""
    marks = list(item.iter_markers("oomph"))
    if not marks and "oomph_run" not in getattr(item, "fixturenames", ()):
        yield
        return
    run = _run_of(item)
    _start(run)
    outcome: Any = yield
    error = outcome.excinfo[1] if outcome.excinfo else None
    if run.stop(error) and error is not None:
        outcome.force_result(None)  # the trace ended there: what it says decides
        error = None
    item.user_properties += [(DEVICE_PROPERTY, run.kind), (PEAK_PROPERTY, run.peak_bytes)]
    told = ""
    if error is None:
        from oomph.pytest_plugin.limits import limit_of

        told = run.against([limit_of(mark.args, mark.kwargs) for mark in marks])
    if told:
        outcome.force_exception(pytest.fail.Exception(told, pytrace=False))
    else:
        item.add_report_section("call", "oomph", run.text())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line on how many tests were measured, and on what."""
    kinds: dict[str, int] = {}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, ()):
            kind = dict(getattr(report, "user_properties", ())).get(DEVICE_PROPERTY)
            if kind is not None and getattr(report, "when", "") == "call":
                kinds[str(kind)] = kinds.get(str(kind), 0) + 1
    words = {"trace": "traced, without a GPU", "cuda": "on a GPU", "cpu": "on the CPU, counted as a GPU"}
    if kinds:
        told = ", ".join(f"{count} {words.get(kind, kind)}" for kind, count in sorted(kinds.items()))
        terminalreporter.write_line(f"oomph: memory of tests: {told}")


def _start(run: OomphRun) -> None:
    """Begins to measure; what cannot be measured fails the test, in one sentence."""
    from oomph.errors import OomphError

    try:
        run.start()
    except OomphError as error:
        raise pytest.fail.Exception(f"oomph: {error}", pytrace=False) from None


def _run_of(item: pytest.Item) -> OomphRun:
    """The measuring of a test, made when it is first asked for."""
    if _RUN not in item.stash:
        from oomph.pytest_plugin.run import OomphRun

        config = item.config
        kind = config.getoption("--oomph-device") or config.getini("oomph_device")
        if kind not in DEVICES:
            raise pytest.UsageError(f"oomph_device is {kind!r}: it takes {', '.join(DEVICES)}")
        gpu = next((mark.kwargs["gpu"] for mark in item.iter_markers("oomph") if mark.kwargs.get("gpu")), "")
        item.stash[_RUN] = OomphRun(
            kind, str(gpu or config.getoption("--oomph-gpu") or config.getini("oomph_gpu"))
        )
    return item.stash[_RUN]
