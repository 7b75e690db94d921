"""Runs held against each other: a planted change among forty equal runs, found by arithmetic and by its name."""

from __future__ import annotations

import pytest

from oomph.diagnose.runs.diff import diff
from oomph.diagnose.runs.facts import facts_of
from oomph.diagnose.runs.model import RunFacts, Suspicion, Value
from oomph.evidence.run.model import Note
from oomph.evidence.run.read import read_run
from tests.recording_store.fakes import GIB, write_run

MIB = 1 << 20
#: What differs between any two runs, whatever happens: other names, other ports, another seed, a little noise.
PLANTS: dict[str, tuple[dict, str]] = {
    "batch": (
        {"rows": 8, "settings": {"arguments.per_device_train_batch_size": "8"}},
        "arguments.per_device_train_batch_size",
    ),
    "batch that fails": (
        {"rows": 8, "fails_at": 1, "settings": {"arguments.per_device_train_batch_size": "8"}},
        "arguments.per_device_train_batch_size",
    ),
    "version": ({"settings": {"versions.transformers": "4.45.2"}}, "versions.transformers"),
    "torch": ({"settings": {"versions.torch": "2.5.1+cu124"}}, "versions.torch"),
    "environment": (
        {"settings": {"environment.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}},
        "environment.PYTORCH_CUDA_ALLOC_CONF",
    ),
    "environment that is gone": (
        {"without": ("environment.PYTORCH_CUDA_ALLOC_CONF",)},
        "environment.PYTORCH_CUDA_ALLOC_CONF",
    ),
    "environment that is new": (
        {"settings": {"environment.CUDA_MODULE_LOADING": "EAGER"}},
        "environment.CUDA_MODULE_LOADING",
    ),
    "data": ({"length": 4096, "settings": {"data.fingerprint": "ffff"}}, "data.fingerprint"),
    "data of the same length": ({"settings": {"data.fingerprint": "ffff"}}, "data.fingerprint"),
    "sequence": (
        {"length": 4096, "settings": {"arguments.max_seq_length": "4096"}},
        "arguments.max_seq_length",
    ),
    "longest batch alone": ({"length": 4096}, "batch.elements"),
    "code": ({"settings": {"git.commit": "f" * 40}}, "git.commit"),
    "neighbour": ({"others": 5 * GIB}, "other_processes"),
    "argument": ({"settings": {"arguments.my_own_switch": "True"}}, "arguments.my_own_switch"),
}


def write(folder, number: int, **options) -> RunFacts:
    settings = {
        "seed": str(number),
        "arguments.output_dir": f"out/{number}",
        "machine.host": f"node-{number % 7}",
    }
    settings |= options.pop("settings", {})
    path = write_run(folder, number, settings=settings, noise=(number % 5) * MIB, **options)
    return facts_of(read_run(path))


@pytest.fixture(scope="module")
def forty(tmp_path_factory) -> list[RunFacts]:
    folder = tmp_path_factory.mktemp("forty")
    return [write(folder, number) for number in range(40)]


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("against", ["one", "forty"])
def test_a_planted_change_is_the_first_suspect(forty, tmp_path, name, against):
    options, planted = PLANTS[name]
    run = write(tmp_path, 50, **options)
    found = diff(run, forty if against == "forty" else [forty[11]])
    assert found.suspects[0].change.key == planted
    assert found.suspects[0].suspicion >= Suspicion.POSSIBLE
    rest = [each for each in found.suspects[1:] if each.suspicion >= Suspicion.POSSIBLE]
    assert [each.change.key for each in rest] == []


def test_equal_runs_have_no_suspect(forty):
    for run in (forty[0], forty[39]):
        others = [each for each in forty if each is not run]
        found = diff(run, others)
        assert [each for each in found.suspects if each.suspicion >= Suspicion.POSSIBLE] == []
        assert not any(each.beyond for each in found.memory)
        assert "no number of memory differs by more than 1 %" in found.notes


def test_a_planted_run_among_the_others_hides_nothing(forty, tmp_path):
    """Thirty-nine equal ones and one that has the run's value are no proof of a change; two values of many are."""
    planted = write(tmp_path, 50, settings={"arguments.optim": "sgd"})
    assert diff(forty[0], [*forty[1:], planted]).suspects[0].suspicion < Suspicion.POSSIBLE
    third = write(tmp_path, 51, settings={"arguments.optim": "adafactor"})
    found = diff(third, [*forty, planted])
    assert found.suspects[0].change.key == "arguments.optim"
    assert found.suspects[0].change.before == "adamw_torch"
    assert dict(found.suspects[0].change.others) == {"adamw_torch": 40, "sgd": 1}


def test_the_numbers_of_a_batch(forty, tmp_path):
    """4 rows keep 4 GiB (and the run's noise); 8 rows are expected to keep as much again."""
    run = write(tmp_path, 50, rows=8, settings={"arguments.per_device_train_batch_size": "8"})
    other = forty[10]  # 10 % 5 = 0: no noise
    found = diff(run, [other])
    suspect = found.suspects[0]
    assert suspect.suspicion is Suspicion.EXPLAINS
    assert suspect.expected_bytes == 4 * GIB
    assert {each.key for each in suspect.also} == {"batch.rows", "batch.elements", "batch.longest"}
    memory = {each.key: each for each in found.memory}
    assert memory["phase.backward.peak"].difference == 4 * GIB
    assert memory["forward.kept"].before == 4 * GIB
    assert memory["alive.before"].before == GIB
    assert memory["alive.added"].before == 2 * GIB
    assert memory["backward.left"].before == GIB
    assert not memory["phase.optimizer.peak"].beyond


def test_a_failed_request_counts_as_wanted(forty, tmp_path):
    """It had 3 + 8 + 1 GiB in backward of the second step, and asked for half a GiB more."""
    run = write(tmp_path, 50, rows=8, fails_at=1)
    memory = {each.key: each for each in diff(run, [forty[10]]).memory}
    assert memory["phase.backward.peak"].after == 12 * GIB + GIB // 2
    assert memory["peak"].after == 12 * GIB + GIB // 2
    assert memory["phase.backward.first.peak"].after == 10 * GIB


def test_the_most_suspicious_first(forty, tmp_path):
    """Twice the batch explains the growth; another learning rate does not, an older transformers went the other way."""
    run = write(
        tmp_path,
        50,
        rows=8,
        settings={
            "arguments.per_device_train_batch_size": "8",
            "arguments.learning_rate": "1.0",
            "arguments.bf16": "False",
            "versions.transformers": "4.49.0",
            "versions.numpy": "9",
            "git.dirty": "yes",
        },
    )
    found = diff(run, [forty[10]])
    order = [each.change.key for each in found.suspects]
    assert order[0] == "arguments.per_device_train_batch_size"
    assert (
        order.index("git.dirty")
        < order.index("versions.transformers")
        < order.index("arguments.learning_rate")
    )
    by_key = {each.change.key: each for each in found.suspects}
    assert by_key["versions.transformers"].suspicion is Suspicion.UNLIKELY
    assert by_key["arguments.learning_rate"].suspicion is Suspicion.HARMLESS


def test_a_change_of_one_rank(forty, tmp_path):
    path = write_run(tmp_path, 50, settings={"environment.NCCL_BUFFSIZE": "4194304"})
    file = path / "fingerprint" / "rank-00001.json"
    file.write_bytes(file.read_bytes().replace(b'"4194304"', b'"99"'))
    found = diff(facts_of(read_run(path)), forty)
    first = found.suspects[0]
    assert (first.change.key, first.change.after) == ("rank.1.environment.NCCL_BUFFSIZE", "99")
    assert first.kind == "environment"


def test_without_fingerprints_and_without_records(forty):
    bare = RunFacts(path="/x", id="x")
    found = diff(bare, forty[:1])
    assert any("no fingerprint of x" in note for note in found.notes)
    assert any("memory cannot be compared" in note for note in found.notes)
    assert diff(forty[0], [bare]).notes
    assert diff(bare, [bare]).suspects == ()


@pytest.mark.parametrize(
    ("key", "before", "after", "beyond"),
    [
        # 8 GiB: 1 % is 82 MiB. Reserved bytes, and main memory, differ more between equal runs.
        ("peak", 8 * GIB, 8 * GIB + 80 * MIB, False),
        ("peak", 8 * GIB, 8 * GIB + 90 * MIB, True),
        ("peak.reserved", 8 * GIB, 8 * GIB + 200 * MIB, False),
        ("peak.reserved", 8 * GIB, 8 * GIB + 300 * MIB, True),
        ("host.rss", 4 * GIB, 4 * GIB + 500 * MIB, False),
        ("peak", 500 << 10, 520 << 10, False),
        ("peak", 500 << 10, 600 << 10, True),
        ("retries", 0, 1, True),
    ],
)
def test_what_is_noise(key, before, after, beyond):
    a, b = RunFacts(path="a", id="a", values={key: before}), RunFacts(path="b", id="b", values={key: after})
    (found,) = diff(b, [a]).memory
    assert found.beyond is beyond


def test_main_memory_is_no_change_of_gpu_memory():
    a = RunFacts(path="a", id="a", values={"peak": GIB, "host.rss": GIB, "versions.torch": "2.6.0"})
    b = RunFacts(path="b", id="b", values={"peak": GIB, "host.rss": 2 * GIB, "versions.torch": "2.6.0"})
    assert "no number of memory differs by more than 1 %" in diff(b, [a]).notes


def test_ranks_that_drift_apart(forty, tmp_path):
    """Rank 1 keeps 2 GiB less than rank 0: the highest peak is the same, and the ranks are 2 GiB apart."""
    path = write_run(tmp_path, 50, rows=4)
    less = write_run(tmp_path / "less", 51, rows=2)
    (path / "ranks" / "rank-00001.jsonl").write_bytes((less / "ranks" / "rank-00001.jsonl").read_bytes())
    memory = {each.key: each for each in diff(facts_of(read_run(path)), forty).memory}
    assert not memory["peak"].beyond
    assert memory["ranks.spread"].after == 2 * GIB
    assert memory["ranks.spread"].beyond


def test_what_was_noticed_in_one_run_alone(forty, tmp_path):
    note = Note("warning.growth", "allocated bytes grow by 1.00 MiB a step", 1.0, 1.0)
    run = facts_of(read_run(write_run(tmp_path, 50, notes=(note,))))
    assert any("alone: warning.growth" in each for each in diff(run, forty).notes)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("4", "4.0", True),
        ("1e-4", "0.0001", True),
        ("0e1234567890123", "0e9999999999999", False),
        ("True", "true", False),
    ],
)
def test_what_is_the_same_value(before, after, same):
    a, b = (
        RunFacts(path=name, id=name, values={"arguments.x": value})
        for name, value in (("a", before), ("b", after))
    )
    assert (diff(b, [a]).suspects == ()) is same


def test_a_smaller_batch_explains_no_higher_peak():
    """Gradients that stay from one micro-batch to the next: what half the batch keeps less of is not what was seen."""

    def facts(name: str, values: dict) -> RunFacts:
        return RunFacts(path=name, id=name, values={"versions.torch": "2.6.0", **values})

    before = facts("before", {
        "batch.elements": 8192, "batch.rows": 32, "batch.longest": "32x256", "forward.kept": 600 * MIB,
        "phase.forward.peak": 5000 * MIB, "phase.backward.peak": 6000 * MIB,
    })  # fmt: skip
    after = facts("after", {
        "batch.elements": 4096, "batch.rows": 16, "batch.longest": "16x256", "forward.kept": 300 * MIB,
        "phase.forward.peak": 6500 * MIB, "phase.backward.peak": 6300 * MIB,
    })  # fmt: skip
    found = diff(after, [before])
    assert [each.suspicion for each in found.suspects] == [Suspicion.POSSIBLE]


def test_what_could_not_be_learned_is_no_change():
    before: dict[str, Value] = {"git.dirty": "no", "versions.torch": "2.6.0", "machine.type": "a2-highgpu-8g"}
    known = RunFacts(path="a", id="a", values=before)
    hurried = RunFacts(
        path="b",
        id="b",
        values={"versions.torch": "2.6.0"},
        missing={"git.dirty": "comparing all files takes longer than the start may"},
    )
    found = diff(hurried, [known])
    # Of the machine nothing was missed: there is none.
    assert [each.change.key for each in found.suspects] == ["machine.type"]
    assert "not known of each run, and not compared there: git.dirty" in found.notes
    assert [each.change.key for each in diff(known, [hurried]).suspects] == ["machine.type"]


def test_one_long_batch_that_failed_is_no_unlikely_cause():
    """Its forward never ended: what forwards kept is of the steps before it, whose batches were the same."""
    common = {"forward.kept": 600 * MIB, "phase.backward.peak": 3000 * MIB}
    before = RunFacts(
        path="a", id="a", values={**common, "batch.elements": 8192, "phase.forward.peak": 2000 * MIB}
    )
    values: dict[str, Value] = {
        **common,
        "batch.elements": 65536,
        "phase.forward.peak": 2400 * MIB,
        "failed.phase": "forward",
        "failed.step": 3,
        "failed.request": 4000 * MIB,
    }
    found = diff(RunFacts(path="b", id="b", values=values), [before])
    assert found.suspects[0].change.key == "batch.elements"
    assert found.suspects[0].suspicion is Suspicion.EXPLAINS
