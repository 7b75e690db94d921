"""Which stepper a job has, and what the smaller ones allocate."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.job.model import Framework, Job, Optimizer, Parallel, Precision
from oomph.phases import Phase
from oomph.predict.optimizers import stepper_for
from oomph.predict.optimizers.clip import clip_grad_norm
from oomph.predict.optimizers.terms import PAGES
from oomph.predict.peak_sink import PeakSink
from tests.predict.optimizers.stepping import of, parameters, real, said

DOCS = Path(__file__).parents[3] / "docs" / "terms"
SQUARE = parameters(of("bfloat16", ((1024, 1024),)))
N = 1024 * 1024


def job(torch: str = "", **optimizer: object) -> Job:
    """A job with such an optimizer."""
    versions = (("torch", torch),) if torch else ()
    return Job(optimizer=Optimizer(**optimizer), framework=Framework(versions=versions))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "end", "peak"),
    [
        pytest.param(job(), 4 * N, 6 * N, id="adamw"),
        pytest.param(job("2.0.1"), 4 * N, 8 * N, id="adamw-torch-2.0"),
        pytest.param(job("1.13.1"), 4 * N, 8 * N, id="adamw-torch-1.13-loops"),
        pytest.param(job(state="fp32"), 8 * N, 12 * N, id="fp32-states"),
        pytest.param(job(impl="fused"), 4 * N + 512, 4 * N + 512, id="fused"),
        pytest.param(job(impl="in_backward"), 4 * N, 6 * N, id="in-backward"),
        pytest.param(job(name="sgd", momentum=0.9), 2 * N, 2 * N, id="sgd"),
        pytest.param(job(name="sgd"), 0, 0, id="sgd-without-momentum"),
        pytest.param(job(name="lion"), 2 * N, 6 * N, id="lion"),
        pytest.param(job(offload="cpu"), 0, 0, id="on-the-host"),
        pytest.param(job(impl="bnb_paged"), 0, 0, id="paged-32bit"),
        pytest.param(job(offload="paged", state="int8"), *[2 * (1024 + 4 * N // 256)] * 2, id="paged-8bit"),
    ],
)
def test_a_square_of_bf16(given, end, peak):
    """Adam has two moments (2 bytes each), foreach one more set for a while, PyTorch 2.0 two; lion one and two."""
    steps = said(stepper_for(given), SQUARE)
    assert (steps.second_end, steps.second_peak) == (end, peak)


def test_torchao_states():
    """8 bits: a byte and 4/256; 4 bits: a half and 4/128 per element and state; maps of 256 and 16 numbers."""
    assert said(stepper_for(job(impl="torchao")), SQUARE).second_end == 2 * (N + 4 * N // 256 + 1024)
    assert said(stepper_for(job(state="int4")), SQUARE).second_end == 2 * (N // 2 + 4 * N // 128 + 512)


def test_masters_are_made_before_the_first_step():
    """4 bytes of masters; at the step 4 of gradients, 8 of moments, 4 of roots."""
    stepper = stepper_for(Job(precision=Precision(weights="bf16", compute="bf16", master=True)))
    sink = PeakSink()
    sink.phase(Phase.LOAD)
    stepper.setup(sink, SQUARE)
    assert sink.current_bytes == 4 * N
    sink.phase(Phase.OPTIMIZER)
    stepper.step(sink, SQUARE, first=True)
    assert sink.peaks()[Phase.OPTIMIZER].bytes == (4 + 4 + 8 + 4) * N
    assert sink.current_bytes == (4 + 8) * N


def test_offloaded_parameters_are_stepped_on_the_host():
    assert stepper_for(Job(parallel=Parallel(strategy="fsdp2_full", offload_parameters=True))).on_host


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (job(name="shampoo"), "shampoo"),
        (job(name="muon", impl="bnb"), "bitsandbytes has no muon"),
        (job(name="sgd", impl="torchao"), "AdamW and Adam, not sgd"),
        (job(impl="torchao", state="bf16"), "not bf16"),
    ],
)
def test_what_is_not_modelled_is_refused(given, words):
    with pytest.raises(UsageError, match=words):
        stepper_for(given)


def test_clipping_is_that_of_torch():
    tensors = [*of("float32", ((700, 300), (40,), (9, 9))), *of("bfloat16", ((300, 500),))]
    made = "type('Clip', (), {'step': lambda self: torch.nn.utils.clip_grad_norm_(params, 1.0) and None})()"
    sink = PeakSink()
    sink.phase(Phase.BACKWARD)
    clip_grad_norm(sink, parameters(tensors))
    assert sink.peaks()[Phase.BACKWARD].bytes == pytest.approx(real(made, tensors).second_peak, abs=2 * 512)
    assert sink.current_bytes == 0


@pytest.mark.parametrize("name", ["adamw", "sgd", "adafactor", "lion", "muon"])
def test_every_block_has_a_page(name):
    """What a step allocates is explained by a page of docs/terms that is there."""
    stepper = stepper_for(job(name=name, momentum=0.9))
    sink = PeakSink()
    sink.phase(Phase.OPTIMIZER)
    stepper.step(sink, parameters(of("bfloat16")), first=True)
    pages = {PAGES[label] for _, label in sink.peaks()[Phase.OPTIMIZER].parts}
    assert all((DOCS / f"{page}.md").is_file() for page in pages)
