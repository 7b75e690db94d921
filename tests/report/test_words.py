from __future__ import annotations

import dataclasses

import pytest

from oomph.diagnose.model import Incident, Outcome
from oomph.evidence.model import Frame, Kind, Quote
from oomph.phases import Phase
from oomph.report.options import ReportOptions
from oomph.report.view import prepare
from oomph.report.words import (
    Places,
    asked_words,
    fact_words,
    frame_words,
    headline,
    phase_words,
    place,
    plural,
    ranges,
    read_so_far,
    says_frame,
    segment_words,
    size,
    what,
    where,
)
from oomph.units import MIB
from tests.report import fakes
from tests.report.fakes import ledger


def of_size(**sizes: str) -> Incident:
    """An incident with this ledger."""
    return dataclasses.replace(fakes.backward_incident(), ledger=ledger(**sizes))


def said(diagnosis) -> str:
    return headline(prepare(diagnosis, ReportOptions()))


def test_headline_from_the_facts():
    assert said(fakes.fatal()) == "CUDA out of memory in backward on rank 1 (GPU 1), after training step 44"
    assert said(fakes.host_kill()) == "Process killed (SIGKILL) in an unknown phase on rank 1"
    assert said(fakes.doctored()) == "CUDA out of memory in backward (checkpoint recompute) on GPU 0"
    assert said(fakes.recovered(3)) == "The job recovered from 3 out-of-memory errors"
    assert said(fakes.no_oom()) == "No out-of-memory failure found in 2 files (1,204 lines)"
    assert said(fakes.look_alike()) == "No out-of-memory failure found in 1 file (61 lines)"


def test_headline_is_the_summary_where_there_is_one():
    assert said(fakes.unknown_phase()) == "CUDA out of memory on GPU 0; one line alone does not prove a cause"


def test_the_step_of_an_earlier_attempt_is_not_this_ones():
    diagnosis = fakes.fatal()
    assert diagnosis.incident is not None
    loading = dataclasses.replace(
        diagnosis.incident, phase=dataclasses.replace(diagnosis.incident.phase, phase=Phase.LOAD)
    )
    assert "step" not in said(dataclasses.replace(diagnosis, incident=loading, incidents=(loading,)))
    first = dataclasses.replace(
        diagnosis.incident, phase=dataclasses.replace(diagnosis.incident.phase, first_step=True)
    )
    assert "step" not in said(dataclasses.replace(diagnosis, incident=first, incidents=(first,)))


def test_a_failure_without_an_incident_still_has_a_headline():
    bare = dataclasses.replace(fakes.fatal(), incident=None, incidents=())
    assert bare.outcome is Outcome.FAILED
    assert said(bare) == "A failure for lack of memory"


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("vendor", ["cuda", "hip", "xpu", "mps", "npu", ""])
def test_every_kind_has_words(kind, vendor):
    incident = dataclasses.replace(
        fakes.backward_incident(),
        failure=dataclasses.replace(fakes.backward_incident().failure, kind=kind, vendor=vendor),
    )
    assert what(incident)
    assert "{" not in what(incident)


@pytest.mark.parametrize("which", list(Phase))
def test_every_phase_has_words(which):
    assert phase_words(fakes.phase(which, "because"))


def test_place():
    incident = fakes.backward_incident()
    assert place(incident) == " on rank 1 (GPU 1)"
    assert place(dataclasses.replace(incident, rank=None)) == " on GPU 1"
    no_device = dataclasses.replace(incident.failure, device=None)
    assert place(dataclasses.replace(incident, failure=no_device)) == " on rank 1"
    assert place(dataclasses.replace(incident, failure=no_device, rank=None)) == ""
    xpu = dataclasses.replace(incident.failure, vendor="xpu")
    assert place(dataclasses.replace(incident, failure=xpu)) == " on rank 1 (XPU 1)"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        # one size of segment for everything up to 1 MiB, another up to 10 MiB
        ("2.00 MiB", "2.00 MiB: the tensor has at most 1 MiB."),
        ("20.00 MiB", "20.00 MiB: the tensor has between 1 and 10 MiB (or between 18 and 20 MiB)."),
        # rounded up to the next 2 MiB
        ("22.00 MiB", "22.00 MiB: the tensor has between 20.00 MiB and 22.00 MiB."),
        ("580.00 MiB", "580.00 MiB: the tensor has between 578.00 MiB and 580.00 MiB."),
        # 1.31 GiB is 1336.32 to 1346.56 MiB; the multiples of 2 in it are 1338 to 1346, less one step 1336:
        # 1336 / 1024 = 1.30, 1346 / 1024 = 1.31
        ("1.31 GiB", "1.31 GiB: the tensor has between 1.30 GiB and 1.31 GiB."),
    ],
)
def test_what_tried_to_allocate_says_about_the_tensor(printed, expected):
    words = segment_words(of_size(segment=printed))
    assert words.startswith('"Tried to allocate" is the segment, not the tensor:')
    assert words.endswith(expected)


def test_sizes_that_are_no_segments():
    assert segment_words(of_size(segment="17.50 MiB")).startswith("17.50 MiB is no multiple of 2 MiB")
    assert segment_words(of_size(segment="512 bytes")).startswith("512 bytes is no multiple of 2 MiB")
    assert segment_words(of_size(request="1.00 GiB")) == ""
    assert segment_words(of_size()) == ""


@pytest.mark.parametrize(("vendor", "form"), [("mps", "M2_mps_GiB"), ("cuda", "A1_cudaMallocAsync")])
def test_other_allocators_have_no_such_segments(vendor, form):
    incident = of_size(segment="256 bytes")
    failure = dataclasses.replace(incident.failure, vendor=vendor, format=form)
    assert segment_words(dataclasses.replace(incident, failure=failure)) == ""


def test_places_are_as_short_as_can_be():
    assert Places(["/long/way/train.log"])(Quote("/long/way/train.log", 7, "")) == "line 7"
    assert Places(["-"])(Quote("-", 7, "")) == "line 7"
    two = Places(["/runs/0/stderr.log", "/runs/1/stderr.log", "/runs/train.log"])
    assert two(Quote("/runs/1/stderr.log", 7, "")) == "1/stderr.log:7"
    assert two(Quote("/runs/train.log", 7, "")) == "train.log:7"
    same = Places(["a/x.log", "b/a/x.log"])
    assert same(Quote("b/a/x.log", 1, "")) == "b/a/x.log:1"


def test_library_frames_are_named_from_their_package_on():
    frame = Frame("/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", 625, "backward")
    assert frame_words(frame) == "torch/_tensor.py:625, in backward"
    assert says_frame(
        fakes.phase(Phase.BACKWARD, "deciding frame torch/_tensor.py:625 in backward", frame=frame)
    )
    assert not says_frame(fakes.phase(Phase.BACKWARD, "a frame", frame=frame))


def test_rounding_by_the_allocators_settings_leaves_the_upper_end():
    words = segment_words(of_size(segment="1024.00 MiB"), rounded_up=True)
    assert words.endswith("the tensor has at most 1024.00 MiB (the job's settings round requests up first).")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"segment": "580.00 MiB", "free": "328.62 MiB"}, "328.62 MiB was free: 251.38 MiB short."),
        ({"segment": "20.00 MiB", "free": "20.00 MiB"}, "20.00 MiB was free when it was read"),
        # 1.31 - 1.30 GiB is 10.24 MiB, and so is the rounding of the two
        ({"segment": "1.31 GiB", "free": "1.30 GiB"}, "short by no more than the rounding of these numbers."),
        ({"segment": "1.31 GiB", "free": "1.03 GiB"}, "286.72 MiB (+- 10.24 MiB) short."),
        ({"request": "3.00 GiB"}, "Asked for 3.00 GiB; how much was free is unknown."),
    ],
)
def test_the_request_against_what_was_free(sizes, expected):
    assert expected in asked_words(ledger(**sizes))


def test_nothing_asked_nothing_said():
    assert asked_words(ledger(free="1.00 GiB")) == ""


def test_small_words():
    assert plural(1, "file") == "1 file"
    assert plural(1204, "line") == "1,204 lines"
    assert ranges([5, 0, 2, 3, 4, 7, 8, 2]) == "0, 2-5, 7, 8"
    assert ranges([]) == ""
    assert where(Quote("-", 3, "")) == "standard input:3"
    assert where(Quote("a.log", 0, "")) == "a.log"
    assert size(100 * MIB, MIB // 2) == "100.00 MiB"
    assert size(100 * MIB, MIB) == "100.00 MiB (+- 1024.00 KiB)"


def test_facts_for_people():
    assert fact_words("gpu_total_bytes", str(80 * 2**30)) == ("GPU memory", "80.00 GiB")
    assert fact_words("total_params", "8030261248") == ("parameters", "8,030,261,248")
    assert fact_words("batch_size", "4") == ("batch size", "4")
    assert fact_words("cuda_version", "13.0") == ("CUDA", "13.0")
    assert fact_words("lora_rank", "²") == ("LoRA rank", "²")


def test_partial_input_is_at_least():
    assert read_so_far(prepare(fakes.several_ranks(), ReportOptions())) == "1 file (at least 520 lines)"
    assert read_so_far(prepare(fakes.recovered(), ReportOptions())) == "standard input (90 lines)"
