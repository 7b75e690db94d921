"""Forwards that no backward follows, copies that autocast makes, and what is older than the trace."""

from __future__ import annotations

from oomph.units import MIB
from tests.diagnose.snapshot.recorded import (
    ACCUMULATE,
    BACKWARD,
    CALL,
    FORWARD,
    LOAD,
    MAIN,
    OWN_STEP,
    Recorder,
    cpp,
    told,
    torch,
    user,
)

#: Autocast's copy of an argument of a linear layer (aten/src/ATen/autocast_mode.cpp).
CAST = (
    cpp("at::native::_to_copy(at::Tensor const&, std::optional<c10::ScalarType>)"),
    cpp("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)"),
    *FORWARD,
)
OTHER = (torch("forward", "nn/modules/activation.py"), *CALL, *MAIN)


def a_pass(recorder: Recorder, layers: int) -> list[int]:
    """A forward of so many layers, each of which keeps two blocks and drops three."""
    kept = []
    for _ in range(layers):
        kept.append(recorder.alloc(2 * MIB, FORWARD))
        for _ in range(3):
            recorder.temporary(MIB, FORWARD)
        kept.append(recorder.alloc(MIB, OTHER))
    return kept


def test_a_graph_that_is_dropped_with_its_output_held_activations():
    """Three passes with gradients and no backward. What the first two held is what the last one holds, to the last
    layer."""
    recorder = Recorder()
    kept = []
    for _ in range(3):
        kept.append(a_pass(recorder, 20))
        recorder.free(*kept[-1])
    analysis = recorder.analysis()
    for one in kept:
        assert {told(analysis, address) for address in one} == {("activations", "lifetime", "possible")}


def test_without_a_graph_little_is_left_and_it_is_no_activation():
    """Below `with torch.no_grad()`, which leaves no frame: 2 outputs of 200 requests."""
    recorder = Recorder()
    outputs = []
    for _ in range(2):
        for _ in range(99):
            recorder.temporary(MIB, FORWARD)
        outputs.append(recorder.alloc(2 * MIB, FORWARD))
    recorder.free(outputs[0])
    analysis = recorder.analysis()
    assert told(analysis, outputs[0])[0] == "temporaries"
    assert told(analysis, outputs[1])[0] == "unknown"  # a result that is kept


def test_long_skips_of_inference_are_no_activations():
    """Three blocks of 200 are there for the whole forward, and a request fails."""
    recorder = Recorder()
    skips = [recorder.alloc(2 * MIB, FORWARD) for _ in range(3)]
    for _ in range(200):
        recorder.temporary(MIB, FORWARD)
    recorder.oom(64 * MIB, FORWARD)
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in skips} == {("temporaries", "lifetime", "possible")}


def test_what_many_layers_had_kept_when_a_request_failed():
    recorder = Recorder()
    kept = a_pass(recorder, 30)
    recorder.oom(64 * MIB, FORWARD)
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in kept} == {("activations", "lifetime", "likely")}


def test_a_teacher_without_gradients_that_failed_in_training():
    """What a function below torch.no_grad() holds is no activation, whatever the rest of the trace does."""
    stack = (*FORWARD[:-2], torch("decorate_context", "utils/_contextlib.py"), *MAIN)
    recorder = Recorder()
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    student = recorder.alloc(2 * MIB, FORWARD)
    teacher = recorder.alloc(2 * MIB, stack)
    recorder.oom(64 * MIB, stack)
    analysis = recorder.analysis()
    assert told(analysis, student) == ("activations", "lifetime", "likely")
    assert told(analysis, teacher) == ("temporaries", "lifetime", "possible")


def test_a_temporary_of_the_layer_that_failed():
    """Each layer made one for its activation function and dropped it; the last layer had no time to."""
    recorder = Recorder()
    kept = []
    for _ in range(40):
        kept.append(recorder.alloc(2 * MIB, FORWARD))
        recorder.temporary(3 * MIB, OTHER)
    under_way = recorder.alloc(3 * MIB, OTHER)
    recorder.oom(64 * MIB, FORWARD)
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in kept} == {("activations", "lifetime", "likely")}
    assert told(analysis, under_way) == ("temporaries", "lifetime", "likely")


def test_an_output_that_is_held_makes_its_forerunners_doubtful():
    recorder = Recorder()
    first = recorder.alloc(4 * MIB, FORWARD)
    other = recorder.alloc(MIB, OTHER)
    recorder.free(other)
    second = recorder.alloc(4 * MIB, FORWARD)
    recorder.free(first)
    recorder.temporary(MIB, OTHER)
    analysis = recorder.analysis()
    assert told(analysis, second) == ("activations", "lifetime", "possible")
    assert told(analysis, first) == ("temporaries", "lifetime", "possible")
    assert told(analysis, other) == ("temporaries", "lifetime", "likely")


def test_copies_of_weights_that_autocast_keeps():
    """Weights of 8 MiB in float32 have copies of 4 MiB; an argument of 3 MiB is cast too, and is an activation."""
    recorder = Recorder()
    for _ in range(2):
        recorder.alloc(8 * MIB, LOAD)
    recorder.before(8 * MIB)
    copies, arguments = [], []
    for _ in range(3):
        arguments.append(recorder.alloc(3 * MIB, CAST))
        copies.append(recorder.alloc(4 * MIB, CAST))
        recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    recorder.free(*copies, *arguments)
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in copies} == {("parameters", "size", "likely")}
    assert {told(analysis, one) for one in arguments} == {("activations", "lifetime", "likely")}


def test_each_pass_has_its_copies():
    """Three passes in a row: each casts the one weight once, and its region ends with it."""
    recorder = Recorder()
    recorder.alloc(8 * MIB, LOAD)
    copies = []
    for _ in range(3):
        copies.append(recorder.alloc(4 * MIB, CAST))
        for _ in range(70):
            recorder.temporary(MIB, FORWARD)
        recorder.free(copies[-1])
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in copies} == {("parameters", "size", "likely")}


def test_more_copies_than_weights_leave_open_which_are_which():
    recorder = Recorder()
    recorder.alloc(8 * MIB, LOAD)
    copies = [recorder.alloc(4 * MIB, CAST) for _ in range(2)]
    recorder.temporary(MIB, BACKWARD)
    recorder.free(*copies)
    analysis = recorder.analysis()
    assert sorted(told(analysis, one) for one in copies) == [
        ("activations", "lifetime", "possible"),
        ("parameters", "size", "possible"),
    ]


def test_a_copy_that_its_operator_drops_is_a_temporary():
    """Weights that need no gradient are not kept in autocast's cache."""
    recorder = Recorder()
    recorder.alloc(8 * MIB, LOAD)
    copy = recorder.alloc(4 * MIB, CAST)
    recorder.temporary(MIB, FORWARD)
    recorder.free(copy)
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    assert told(recorder.analysis(), copy)[0] == "temporaries"


def test_gradients_as_old_as_the_parameters_are_told_by_the_states():
    """Without zero_grad, backward adds to gradients from before the trace. Two parameters of 4 MiB have two gradients
    and Adam's four states, which each step replaces; 5 MiB is something else."""
    recorder = Recorder()
    older = [recorder.before(4 * MIB) for _ in range(4)]
    states = [recorder.before(4 * MIB) for _ in range(4)]
    odd = recorder.before(5 * MIB)
    for _ in range(2):
        kept = recorder.alloc(2 * MIB, FORWARD)
        recorder.temporary(4 * MIB, BACKWARD)
        recorder.free(kept)
        recorder.temporary(MIB, BACKWARD)
        for number, old in enumerate(states):
            states[number] = recorder.alloc(4 * MIB, OWN_STEP)
            recorder.free(old)
    analysis = recorder.analysis()
    of_four = sorted(told(analysis, one) for one in older)
    assert of_four == [("gradients", "size", "possible")] * 2 + [("parameters", "size", "possible")] * 2
    assert {told(analysis, one)[0] for one in states} == {"optimizer state"}
    assert told(analysis, odd)[0] == "unknown"


def test_what_the_last_operators_used_says_nothing_about_parameters():
    """The embedding's gradient flows last and is added to one from before the trace: no gradient is made."""
    recorder = Recorder()
    older = [recorder.before(4 * MIB) for _ in range(2)]
    kept = recorder.alloc(2 * MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    recorder.free(kept)
    last = recorder.alloc(4 * MIB, BACKWARD)
    recorder.free(last)
    analysis = recorder.analysis()
    assert {told(analysis, one)[0] for one in older} == {"unknown"}
    assert told(analysis, last)[2] == "possible"
    recorder = Recorder()
    older = [recorder.before(4 * MIB)]
    recorder.temporary(MIB, FORWARD)
    recorder.alloc(4 * MIB, ACCUMULATE)
    assert told(recorder.analysis(), older[0]) == ("parameters", "size", "likely")


def test_a_cast_outside_of_a_layer_is_still_one_of_forward():
    recorder = Recorder()
    recorder.alloc(8 * MIB, LOAD)
    stack = (*CAST[:2], torch("forward", "nn/modules/linear.py"), *CALL, user("encode", "data.py"), *MAIN)
    copy = recorder.alloc(4 * MIB, stack)
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    recorder.free(copy)
    assert told(recorder.analysis(), copy) == ("parameters", "size", "likely")
