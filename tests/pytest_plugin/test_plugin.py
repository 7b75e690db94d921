"""The plugin in sessions of pytest of its own."""

from __future__ import annotations

import re

import pytest

from oomph.phases import Phase
from oomph.pytest_plugin.limits import Limit, limit_of

pytest_plugins = ["pytester"]

MIB = 1 << 20
#: One linear layer of 1024 x 1024 in fp32, without a bias: 4 MiB of weights, as many of gradients, twice of moments.
STEP = """
import pytest

def step(device, steps=2):
    import torch
    model = torch.nn.Linear(1024, 1024, bias=False, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(steps):
        model(torch.ones(1, 1024, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
TESTS = (
    STEP
    + """
@pytest.mark.oomph(peak="64 MiB")
@pytest.mark.oomph(peak="64 MiB", phase="backward", counter="reserved")
def test_fits(oomph_run):
    step(oomph_run.device)

@pytest.mark.oomph(peak="15 MiB", phase="backward")
def test_too_much(oomph_run):
    step(oomph_run.device)

@pytest.mark.oomph(peak="64 MiB", phase="eval")
def test_another_phase(oomph_run):
    step(oomph_run.device, steps=1)

@pytest.mark.oomph(peak="64 MiB")
def test_nothing():
    pass

@pytest.mark.oomph(peak="64 MiB")
def test_fails_by_itself(oomph_run):
    assert oomph_run.kind == "something else"

@pytest.mark.oomph(peak="64 MiB")
def test_is_skipped():
    pytest.skip("not today")

def test_measured_without_a_mark(oomph_run, pytestconfig):
    import torch
    with oomph_run.phase("generate"):
        torch.ones(3 << 20, dtype=torch.uint8, device=oomph_run.device)

def test_not_measured():
    pass
"""
)
#: On a GPU that is only traced.
SMALL = """
@pytest.mark.oomph(peak="70 GiB", gpu="a100-40gb")
def test_too_large(oomph_run):
    import torch
    held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(60)]

@pytest.mark.oomph(peak="70 GiB", gpu="no-such-gpu")
def test_no_such_gpu():
    pass
"""


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch):
    """Those of other packages load what they like."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str, ini: str = "") -> pytest.RunResult:
    pytester.makeini(f"[pytest]\n{ini}\n")
    return pytester.runpytest_subprocess("-p", "oomph.pytest_plugin", "-p", "no:cacheprovider", *arguments)


def failure(result: pytest.RunResult, test: str) -> str:
    """What is printed of a test that failed."""
    text = result.stdout.str()
    found = re.search(rf"_ {test} _+\n(.*?)(?=\n_{{5,}} |\n={{5,}} )", text, re.DOTALL)
    assert found, text
    return found[1]


def test_a_step_that_is_traced(pytester):
    """At the peak of backward are alive, in the second step: weights, two moments, and the gradient: 16 MiB."""
    pytester.makepyfile(TESTS + SMALL)
    result = run(pytester, "--oomph-device=trace", "--strict-markers", "-rP")
    result.assert_outcomes(passed=3, failed=6, skipped=1)
    result.stdout.fnmatch_lines(["oomph: memory of tests: 7 traced, without a GPU"])
    told = failure(result, "test_too_much")
    size = re.match(r"backward had (\d+\.\d\d) MiB allocated, .* over the limit of 15.00 MiB\n", told)
    assert size, told
    workspace = re.search(r"^  workspace +(\d+\.\d\d) MiB$", told, re.MULTILINE)  # cuBLAS has its own
    assert workspace, told
    assert 16.0 <= float(size[1]) - float(workspace[1]) < 17.0
    assert "Memory traced without a GPU" in told
    assert re.search(r"^  optimizer state +8\.0\d MiB$", told, re.MULTILINE), told
    assert "no eval phase was seen" in failure(result, "test_another_phase")
    assert "nothing was allocated on the device" in failure(result, "test_nothing")
    assert "something else" in failure(result, "test_fails_by_itself")
    assert "memory ran out on the traced GPU" in failure(result, "test_too_large")
    assert "no-such-gpu" in failure(result, "test_no_such_gpu")
    assert re.search(r"^  generate +3\.00 MiB allocated", result.stdout.str(), re.MULTILINE)


def test_a_step_on_the_cpu(pytester):
    pytester.makepyfile(TESTS)
    result = run(pytester, "--junit-xml=report.xml", ini="oomph_device = cpu")
    result.assert_outcomes(passed=3, failed=4, skipped=1)
    result.stdout.fnmatch_lines(["oomph: memory of tests: 6 on the CPU, counted as a GPU"])
    told = failure(result, "test_too_much")
    size = re.match(r"backward had (\d+\.\d\d) MiB allocated", told)
    assert size, told
    assert 16.0 <= float(size[1]) < 17.0  # and the input, the output and their gradient of 4 KiB each
    assert "measured on the CPU" in told
    report = (pytester.path / "report.xml").read_text()
    assert '<property name="oomph_device" value="cpu"' in report
    peaks = [int(size) for size in re.findall(r'name="oomph_peak_bytes" value="(\d+)"', report)]
    assert 3 * MIB in [size // MIB * MIB for size in peaks]


def test_a_session_that_does_not_use_it_pays_nothing(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded(request):
            loaded = {name.split(".")[0] for name in sys.modules}
            assert not loaded & {"torch", "numpy", "msgspec", "click"}
            assert not {name for name in sys.modules if name.startswith("oomph.")} - {"oomph.pytest_plugin"}
        """
    )
    run(pytester, "-W", "error").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("oomph()", "needs a size"),
        ("oomph(peak='1 GiB', phase='sideways')", "no phase 'sideways'"),
    ],
)
def test_a_mark_that_makes_no_sense_is_an_error_before_anything_runs(pytester, mark, words):
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{mark}\ndef test_it():\n    pass\n")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str() + result.stdout.str()


def test_what_a_mark_asks_for():
    gib = 1 << 30
    assert limit_of(("12 GiB",), {}) == Limit(12 * gib)
    assert limit_of(("1 GiB", "forward"), {}) == Limit(gib, Phase.FORWARD)
    assert limit_of((), {"peak": 5, "phase": "Backward", "counter": "reserved", "gpu": "t4"}) == Limit(
        5, Phase.BACKWARD, "reserved"
    )
    for args, keywords in (
        (("1 GiB", "forward", "more"), {}),
        ((True,), {}),
        ((0,), {}),
        ((1.5,), {}),
        (("1 GiB",), {"counter": "free"}),
    ):
        with pytest.raises(ValueError, match="the mark oomph"):
            limit_of(args, keywords)


def test_the_entry_point_is_declared(root):
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\noomph = "oomph.pytest_plugin"\n' in text
