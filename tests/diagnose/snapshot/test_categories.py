"""What each block was for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.model import How
from oomph.diagnose.snapshot.places import place_of
from oomph.evidence.snapshot import read
from oomph.memory.categories import CATEGORIES, Category
from oomph.units import MIB
from tests.diagnose.snapshot.recorded import (
    ACCUMULATE,
    BACKWARD,
    BATCH,
    CALL,
    FORWARD,
    LOAD,
    MAIN,
    OWN_STEP,
    RECOMPUTE,
    SCRATCH,
    SEED,
    STATE,
    THREAD,
    Recorder,
    cpp,
    told,
    torch,
    user,
)

#: Modules of the user's own that make modules: parameters, possibly.
NESTED = (user("__init__", "linear.py"), user("__init__", "block.py"), *MAIN)
#: 2 x 4096 KiB + 8 x 16 KiB (ATen/cuda/CublasHandlePool.cpp).
CUBLAS_BYTES = 8_519_680


class Job:
    """One step after another of a job with one parameter of 4 MiB, and what every block is."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.is_: dict[int, str] = {}

    def made(self, address: int, what: str) -> int:
        self.is_[address] = what
        return address

    def run(self, steps: int) -> None:
        recorder = self.recorder
        self.made(recorder.alloc(4 * MIB, LOAD), "parameters")
        for number in range(steps):
            batch = self.made(recorder.alloc(MIB, BATCH), "unknown")
            kept = [self.made(recorder.alloc(2 * MIB, FORWARD), "activations") for _ in range(3)]
            recorder.free(self.made(recorder.alloc(MIB, FORWARD), "temporaries"))
            gradient = self.made(recorder.alloc(3 * MIB, BACKWARD), "temporaries")
            recorder.free(*kept, gradient)
            gradient = self.made(recorder.alloc(4 * MIB, ACCUMULATE), "gradients")
            recorder.free(batch)
            if not number:
                for _ in range(2):
                    self.made(recorder.alloc(4 * MIB, STATE), "optimizer state")
            recorder.free(self.made(recorder.alloc(4 * MIB, SCRATCH), "temporaries"))
            recorder.free(gradient)


def test_every_block_of_a_training_job():
    job = Job(Recorder())
    job.run(3)
    analysis = job.recorder.analysis()
    assert {address: told(analysis, address)[0] for address in job.is_} == job.is_


def test_a_forward_that_fails_has_kept_what_was_alive():
    recorder = Recorder()
    kept = recorder.alloc(2 * MIB, FORWARD)
    gone = recorder.alloc(MIB, FORWARD)
    recorder.free(gone)
    recorder.oom(64 * MIB, FORWARD)
    recorder.free(kept)  # the exception drops it
    analysis = recorder.analysis()
    assert told(analysis, kept) == ("activations", "lifetime", "possible")  # or inference, and a temporary
    assert told(analysis, gone) == ("temporaries", "lifetime", "likely")


def test_a_forward_that_failed_and_went_on():
    recorder = Recorder()
    lost = recorder.alloc(2 * MIB, FORWARD)
    recorder.oom(64 * MIB, FORWARD)
    recorder.free(lost)
    kept = recorder.alloc(MIB, FORWARD)
    recorder.temporary(512, BACKWARD)
    recorder.free(kept)
    analysis = recorder.analysis()
    assert told(analysis, lost)[0] == told(analysis, kept)[0] == "activations"


def test_inference_without_gradients_has_temporaries():
    recorder = Recorder()
    stack = (*FORWARD[:-2], torch("decorate_context", "utils/_contextlib.py"), *MAIN)
    first = recorder.alloc(MIB, stack)
    second = recorder.alloc(MIB, stack)
    recorder.free(first)
    recorder.alloc(MIB, stack)
    analysis = recorder.analysis()
    assert told(analysis, first) == ("temporaries", "lifetime", "likely")
    assert told(analysis, second) == ("temporaries", "lifetime", "possible")


def test_what_backward_leaves_is_a_gradient():
    recorder = Recorder()
    recorder.alloc(4 * MIB, LOAD)
    recorder.temporary(MIB, FORWARD)
    stolen = recorder.alloc(4 * MIB, BACKWARD)  # the engine may hand a tensor over without a copy
    other = recorder.alloc(3 * MIB, BACKWARD)  # of no parameter's size
    recorder.temporary(MIB, SCRATCH)
    analysis = recorder.analysis()
    assert told(analysis, stolen) == ("gradients", "lifetime", "likely")
    assert told(analysis, other) == ("gradients", "lifetime", "possible")


def test_gradients_are_dropped_after_an_optimizer_that_allocates_nothing():
    """SGD without momentum, or a fused optimizer in its later steps: zero_grad is all that follows backward."""
    recorder = Recorder()
    recorder.alloc(4 * MIB, LOAD)
    gradients, flows = [], []
    for _ in range(3):
        kept = recorder.alloc(2 * MIB, FORWARD)
        recorder.temporary(3 * MIB, BACKWARD)
        gradients.append(recorder.alloc(4 * MIB, BACKWARD))
        for _ in range(10):
            recorder.temporary(MIB, BACKWARD)
        flows.append(recorder.alloc(3 * MIB, BACKWARD))
        recorder.free(kept, flows[-1], gradients[-1])
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in gradients} == {("gradients", "lifetime", "likely")}
    assert {told(analysis, one) for one in flows} == {("temporaries", "lifetime", "possible")}


def test_the_gradient_of_the_loss_is_no_parameters():
    recorder = Recorder()
    recorder.temporary(MIB, FORWARD)
    seed = recorder.alloc(4, SEED)
    for _ in range(100):
        recorder.temporary(MIB, BACKWARD)
    recorder.free(seed)
    recorder.temporary(MIB, FORWARD)
    assert told(recorder.analysis(), seed) == ("temporaries", "frames", "likely")


def test_a_forward_that_nothing_tells_does_not_join_two_backwards():
    recorder = Recorder()
    gradients = []
    for _ in range(2):
        kept = recorder.alloc(2 * MIB, MAIN)
        recorder.temporary(MIB, BACKWARD)
        gradients.append(recorder.alloc(4 * MIB, BACKWARD))
        recorder.temporary(MIB, BACKWARD)
        recorder.free(kept)
        recorder.temporary(MIB, MAIN)
        recorder.free(gradients[-1])
    analysis = recorder.analysis()
    assert {told(analysis, one)[0] for one in gradients} == {"gradients"}


def test_recomputed_activations():
    recorder = Recorder()
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(512, SEED)
    kept = recorder.alloc(2 * MIB, RECOMPUTE)
    gone = recorder.alloc(MIB, RECOMPUTE)
    recorder.free(gone)
    recorder.alloc(512, RECOMPUTE)
    recorder.temporary(MIB, BACKWARD)
    recorder.free(kept)
    analysis = recorder.analysis()
    assert told(analysis, kept)[0] == "activations"
    assert told(analysis, gone)[0] == "temporaries"


def test_a_backward_that_fails_is_told_by_earlier_steps():
    recorder = Recorder()
    weight = (cpp("at::_ops::sum::call(at::Tensor const&)"), *BACKWARD)

    def until_backward() -> tuple[int, int, int]:
        return (
            recorder.alloc(2 * MIB, FORWARD),
            recorder.alloc(4 * MIB, weight),
            recorder.alloc(3 * MIB, BACKWARD),
        )

    for _ in range(2):
        kept, gradient, flow = until_backward()
        recorder.free(flow, kept)
        recorder.temporary(MIB, SCRATCH)
        recorder.free(gradient)
    kept, gradient, flow = until_backward()
    recorder.oom(64 * MIB, BACKWARD)
    analysis = recorder.analysis()
    assert told(analysis, gradient) == ("gradients", "lifetime", "likely")
    assert told(analysis, flow) == ("temporaries", "lifetime", "likely")
    assert told(analysis, kept)[0] == "activations"


def test_a_first_backward_that_fails():
    recorder = Recorder()
    recorder.alloc(4 * MIB, LOAD)
    recorder.alloc(MIB, FORWARD)
    fits = recorder.alloc(4 * MIB, BACKWARD)
    other = recorder.alloc(3 * MIB, BACKWARD)
    known = recorder.alloc(4 * MIB, ACCUMULATE)
    recorder.oom(64 * MIB, BACKWARD)
    analysis = recorder.analysis()
    assert told(analysis, fits) == ("gradients", "size", "possible")
    assert told(analysis, other) == ("temporaries", "lifetime", "possible")
    assert told(analysis, known) == ("gradients", "frames", "certain")


def test_an_optimizer_that_fails():
    recorder = Recorder()
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    state = recorder.alloc(4 * MIB, STATE)
    scratch = recorder.alloc(4 * MIB, SCRATCH)
    own = recorder.alloc(4 * MIB, OWN_STEP)
    recorder.oom(64 * MIB, SCRATCH)
    analysis = recorder.analysis()
    assert told(analysis, state) == ("optimizer state", "frames", "likely")
    assert told(analysis, scratch) == ("temporaries", "frames", "likely")
    assert told(analysis, own)[0] == "unknown"


def test_parameters_that_an_optimizer_replaces():
    """m = beta * m + ..., v = ..., p = p - ...: each new block is followed by the end of the old one."""
    recorder = Recorder()
    parameter = recorder.alloc(4 * MIB, NESTED)
    states = [recorder.alloc(4 * MIB, (user("__init__", "optimizer.py"), *MAIN)) for _ in range(2)]
    parameters = [parameter]
    for _ in range(3):
        recorder.temporary(MIB, FORWARD)
        recorder.temporary(MIB, BACKWARD)
        for number, old in enumerate(states):
            states[number] = recorder.alloc(4 * MIB, OWN_STEP)
            recorder.free(old)
        new = recorder.alloc(4 * MIB, OWN_STEP)
        recorder.free(parameters[-1])
        parameters.append(new)
    analysis = recorder.analysis()
    assert [told(analysis, one)[0] for one in parameters] == ["parameters"] * 4
    assert told(analysis, parameters[-1])[2] == "possible"
    assert [told(analysis, one)[0] for one in states] == ["optimizer state"] * 2


def test_workspaces_by_frames_and_by_size():
    recorder = Recorder()
    frames = (cpp("at::cuda::getNewWorkspace()"), cpp("at::cuda::getCurrentCUDABlasHandle()"), *FORWARD)
    known = recorder.alloc(32 * MIB, frames)
    same_size = recorder.alloc(32 * MIB, FORWARD)  # C++ frames, and none of them is cuBLAS's handle
    recorder.temporary(512, BACKWARD)
    analysis = recorder.analysis()
    assert told(analysis, known) == ("workspace", "frames", "certain")
    assert told(analysis, same_size)[0] != "workspace"

    python = Recorder(python_only=True)
    by_size = python.alloc(CUBLAS_BYTES, frames)
    many = [python.alloc(32 * MIB, FORWARD) for _ in range(2)]  # a handle makes one, and once
    python.temporary(512, SEED)
    analysis = python.analysis()
    assert told(analysis, by_size) == ("workspace", "size", "possible")
    assert "workspace" not in {told(analysis, one)[0] for one in many}


def test_a_weight_of_32_mib_is_no_workspace():
    """One matrix of 4096 x 2048 in float32, its gradient and two states: four blocks of Hopper's workspace's size."""
    recorder = Recorder(python_only=True)
    weight = recorder.alloc(32 * MIB, LOAD)
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(512, SEED)
    gradient = recorder.alloc(32 * MIB, ACCUMULATE)
    states = [recorder.alloc(32 * MIB, STATE) for _ in range(2)]
    analysis = recorder.analysis()
    assert told(analysis, weight) == ("parameters", "frames", "likely")
    assert told(analysis, gradient)[0] == "gradients"
    assert {told(analysis, one)[0] for one in states} == {"optimizer state"}


def test_communication_and_replicas():
    recorder = Recorder()
    bucket = recorder.alloc(
        4 * MIB, (cpp("c10d::Reducer::initialize_buckets(std::vector<unsigned long>)"), *MAIN)
    )
    replica = recorder.alloc(
        MIB,
        (
            torch("broadcast_coalesced", "nn/parallel/comm.py"),
            torch("replicate", "nn/parallel/replicate.py"),
            torch("forward", "nn/parallel/data_parallel.py"),
            *CALL,
            *MAIN,
        ),
    )
    recorder.temporary(MIB, FORWARD)
    analysis = recorder.analysis()
    assert told(analysis, bucket) == ("communication", "frames", "likely")
    assert told(analysis, replica) == ("parameters", "frames", "likely")


def test_what_a_reduce_scatter_leaves_is_the_gradient():
    """FSDP: gathered parameters and reduce-scatter's input are buffers, its output is what the optimizer uses."""
    file = "distributed/fsdp/_fully_shard/_fsdp_collectives.py"
    reduces = (torch("allocate", file), torch("foreach_reduce", file), *THREAD)
    recorder = Recorder()
    lasting = recorder.alloc(MIB, (torch("allreduce_bucket", "distributed/zero.py"), *MAIN))
    gradients, inputs = [], []
    for _ in range(3):
        kept = recorder.alloc(2 * MIB, FORWARD)
        inputs.append(recorder.alloc(8 * MIB, reduces))
        gradients.append(recorder.alloc(4 * MIB, reduces))
        recorder.temporary(MIB, BACKWARD)
        recorder.free(inputs[-1], kept)
        recorder.temporary(MIB, BACKWARD)
        recorder.temporary(MIB, SCRATCH)
        recorder.free(gradients[-1])
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in gradients} == {("gradients", "lifetime", "likely")}
    assert {told(analysis, one) for one in (lasting, *inputs)} == {("communication", "frames", "likely")}


def test_without_stacks_everything_is_unknown():
    job = Job(Recorder(stacks=False))
    job.run(3)
    analysis = job.recorder.analysis()
    assert {told(analysis, address) for address in job.is_} == {("unknown", "none", "possible")}


def test_with_python_stacks_alone_backward_is_told_by_what_has_none():
    job = Job(Recorder(python_only=True))
    job.recorder.temporary(512, SEED)
    job.run(3)
    analysis = job.recorder.analysis()
    assert {address: told(analysis, address)[0] for address in job.is_} == job.is_


def test_blocks_from_before_the_trace():
    recorder = Recorder()
    shown = recorder.before(MIB, LOAD)
    parameters = [recorder.before(4 * MIB), recorder.before(6 * MIB)]
    states = [recorder.before(4 * MIB) for _ in range(2)]
    odd = recorder.before(5 * MIB)
    at_work, activation = recorder.before(2 * MIB), recorder.before(2 * MIB)
    recorder.temporary(MIB, BACKWARD)  # the trace begins in the middle of a backward
    recorder.free(at_work)
    for _ in range(20):
        recorder.temporary(MIB, BACKWARD)
    recorder.free(activation)
    gradients = [recorder.alloc(4 * MIB, ACCUMULATE), recorder.alloc(6 * MIB, ACCUMULATE)]
    recorder.temporary(MIB, SCRATCH)
    recorder.free(*gradients)
    analysis = recorder.analysis()
    assert told(analysis, shown) == ("parameters", "frames", "likely")
    assert told(analysis, activation) == ("activations", "lifetime", "likely")
    assert told(analysis, at_work) == (
        "activations",
        "lifetime",
        "possible",
    )  # or what the first operator used
    assert told(analysis, odd)[0] == "unknown"
    # One gradient of 6 MiB and one block of that size: its parameter. Three blocks of 4 MiB: which is which is open.
    assert told(analysis, parameters[1]) == ("parameters", "size", "likely")
    of_four = sorted(told(analysis, one) for one in (parameters[0], *states))
    assert of_four == [("optimizer state", "size", "possible")] * 2 + [("parameters", "size", "possible")]


def test_a_snapshot_without_history_speaks_by_frames_alone():
    recorder = Recorder()
    parameter = recorder.before(4 * MIB, LOAD)
    bare = recorder.before(4 * MIB)
    analysis = recorder.analysis()
    assert told(analysis, bare)[0] == "unknown"
    assert told(analysis, parameter) == ("parameters", "frames", "likely")


def test_what_rests_on_a_request_that_says_nothing_is_possible():
    recorder = Recorder()
    recorder.temporary(MIB, FORWARD)
    silent = recorder.alloc(2 * MIB, MAIN)
    recorder.temporary(MIB, FORWARD)
    recorder.temporary(MIB, BACKWARD)
    recorder.free(silent)
    recorder.temporary(MIB, BACKWARD)
    assert told(recorder.analysis(), silent) == ("activations", "lifetime", "possible")


# -- real snapshots, by arithmetic from the models that their scripts build ---------------------------------------

_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "snapshots"
_NAMED = os.environ.get("OOMPH_CONFORMANCE")


def _folder() -> Path | None:
    for folder in (Path(_NAMED) / "snapshots", Path(_NAMED).parent / "snapshots") if _NAMED else (_BESIDE,):
        if folder.is_dir():
            return folder
    return None


def analyses(name: str) -> Iterator[Analysis]:
    """The used devices of a real snapshot; none where it is not there."""
    folder = _folder()
    if folder is not None and (folder / name).is_file():
        snapshot = read(folder / name)
        for device in snapshot.devices:
            if len(device.timeline):
                yield Analysis(snapshot, device.index)


def transformer(layers: int, width: int, inner: int, vocabulary: int = 10_000) -> int:
    """Parameters of the transformer of these scripts: embedding and head, and for each layer four square matrices, a
    gated feed-forward of three, two norms; one norm at the end."""
    layer = 4 * width * width + 3 * width * inner + 2 * width
    return 2 * vocabulary * width + layers * layer + width


def alive_bytes(analysis: Analysis, position: int, category: Category) -> int:
    """Requested bytes of that category after an event."""
    rows = analysis.lifetimes.alive_at(position)
    mine = analysis.block_category[rows] == CATEGORIES.index(category)
    return int(analysis.lifetimes.requested_bytes[rows[mine]].sum())


#: name -> (parameters, whether the optimizer's state is all there at the end)
TRANSFORMERS = {
    "transformer-medium-ctx128-training.pickle": transformer(24, 1024, 4096),
    "transformer-medium-ctx512-training.pickle": transformer(24, 1024, 4096),
    "transformer-2.7b-ctx128-full-step.pickle": transformer(32, 2560, 10_240),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_parameters_gradients_and_states_of_real_transformers(name: str):
    """In float32: parameters and gradients of 4 bytes each, two states of AdamW of the same size."""
    size = 4 * TRANSFORMERS[name]
    for analysis in analyses(name):
        end = len(analysis.timeline) - 1
        assert analysis.steps.count == 1
        assert alive_bytes(analysis, end, Category.PARAMETERS) == size
        assert alive_bytes(analysis, end, Category.GRADIENTS) == size
        assert alive_bytes(analysis, end, Category.OPTIMIZER_STATE) == 2 * size


#: name -> bytes of the copies that autocast keeps from the first step's forward until its region ends behind the last
#: step: 2 for each element of the matrices, but for the embedding, which is looked up and not multiplied.
REPLACED = {
    "transformer-small-ctx100-fwd-bwd.pickle": 0,
    "transformer-small-ctx200-fwd-bwd-mixed.pickle": 2
    * (4 * (4 * 512 * 512 + 3 * 512 * 1344) + 10_000 * 512),
}


@pytest.mark.parametrize("name", REPLACED)
def test_an_optimizer_that_replaces_its_parameters(name: str):
    size, copies = 4 * transformer(4, 512, 1344), REPLACED[name]
    for analysis in analyses(name):
        assert analysis.steps.count == 3
        first, second, third = analysis.steps.first_positions
        end = len(analysis.timeline) - 1
        for position, expected in ((first, 0), (second, copies), (third, copies), (end, 0)):
            assert alive_bytes(analysis, position, Category.PARAMETERS) == size + expected
            assert alive_bytes(analysis, position, Category.OPTIMIZER_STATE) == 2 * size
        # The script's last statement of a step is `p.data = p.data - old_lr * group["weight_decay"] * p.data`, its
        # line 64; lines 51 and 56 keep new_m and new_v.
        for position in (second, third, end):
            lines = {category: set[int]() for category in (Category.PARAMETERS, Category.OPTIMIZER_STATE)}
            for row in analysis.lifetimes.alive_at(position):
                category = CATEGORIES[analysis.block_category[row]]
                place = place_of(analysis.frames(int(analysis.block_stack[row])))
                if category in lines and place is not None and place.file.endswith("/optimizer.py"):
                    lines[category].add(place.line)
            assert lines == {Category.PARAMETERS: {64}, Category.OPTIMIZER_STATE: {51, 56}}


def test_adapters_of_a_fine_tuned_model():
    """22 layers, rank 16 on the query (2048 to 2048) and the value (2048 to 256) projection, in float32. The embedding
    of the 1000 tokens is a leaf with a gradient too: training with frozen weights asks for it."""
    size = 4 * 22 * 16 * ((2048 + 2048) + (2048 + 256))
    embedding = 4 * 1000 * 2048
    for analysis in analyses("finetune-torch21.pickle"):
        end = len(analysis.timeline) - 1
        assert alive_bytes(analysis, end, Category.GRADIENTS) == size + embedding
        assert alive_bytes(analysis, end, Category.PARAMETERS) == size


def test_a_forward_on_three_devices_that_failed():
    for analysis in analyses("three-gpus-expandable-oom.pickle"):
        lives, labels = analysis.lifetimes, analysis.labels
        ooms = analysis.timeline.kind == 7
        position = int(np.flatnonzero(ooms)[0]) if ooms.any() else int(np.argmax(analysis.allocated_bytes))
        rows = lives.alive_at(position)
        by = {
            category: alive_bytes(analysis, position, category)
            for category in (
                Category.ACTIVATIONS,
                Category.TEMPORARIES,
                Category.PARAMETERS,
                Category.WORKSPACE,
            )
        }
        whole = int(lives.requested_bytes[rows].sum())
        if analysis.index:
            # What the model has on device 0 (made by Module.to in one place) is copied to each other device.
            assert by[Category.PARAMETERS] == 251_662_336 + 4096
            assert by[Category.WORKSPACE] == CUBLAS_BYTES
        if ooms.any():
            assert sum(by.values()) == whole
            # What the failed layer had made at the line that earlier layers made and dropped: one block.
            assert by[Category.TEMPORARIES] == 5_308_694_528
        assert by[Category.ACTIVATIONS] > 0
        # Nothing that this process frees while the exception goes out is a gradient or a state.
        assert alive_bytes(analysis, position, Category.GRADIENTS) == 0
        assert alive_bytes(analysis, position, Category.OPTIMIZER_STATE) == 0
        assert labels.of(-1).category is Category.UNKNOWN


@pytest.mark.parametrize(
    "name", ["octree-inference-retries.pickle", "transformer-torch210.pickle", "unet-single-step.pickle"]
)
def test_inference_has_neither_gradients_nor_states_nor_steps(name: str):
    for analysis in analyses(name):
        assert analysis.steps.count == 0
        sure = analysis.block_certainty < tuple(Certainty).index(Certainty.POSSIBLE)
        for category in (Category.GRADIENTS, Category.OPTIMIZER_STATE, Category.ACTIVATIONS):
            assert not (sure & (analysis.block_category == CATEGORIES.index(category))).any()


def test_what_nothing_tells_has_no_reason():
    job = Job(Recorder())
    job.run(2)
    analysis = job.recorder.analysis()
    unknown = analysis.block_category == CATEGORIES.index(Category.UNKNOWN)
    assert ((analysis.block_how == tuple(How).index(How.NONE)) == unknown).all()
