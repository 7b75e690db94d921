"""Launches as the readers give them: what srun starts has the quote of its srun."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env508_processes_and_gpus import ProcessesAndGpus
from oomph.evidence.environment.model import Launch
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    untold,
    variables,
)


def test_more_processes_than_gpus() -> None:
    made = environment(launches=(launch("sbatch", gpus=4, line=1), launch("torchrun", processes=8, line=9)))
    found = problem(ProcessesAndGpus, made)
    assert found.severity is ERROR
    assert found.numbers == {"processes": 8, "gpus": 4}
    assert found.paste == "--nproc-per-node=4"


def test_eight_times_eight() -> None:
    made = environment(
        launches=(
            launch("sbatch", gpus=8, processes=8, nodes=2, line=2),
            launch("srun", processes=8, gpus=8, line=9),
            launch("torchrun", processes=8, line=9),
        )
    )
    found = problem(ProcessesAndGpus, made)
    assert found.numbers == {"processes": 64, "gpus": 8}
    assert "8 of srun times 8 of torchrun" in found.says
    assert found.paste == "--ntasks-per-node=1"


def test_one_task_and_one_process_per_gpu() -> None:
    made = environment(
        launches=(launch("srun", processes=1, gpus=8, line=9), launch("torchrun", processes=8, line=9))
    )
    assert "8 processes of torchrun" in clear(ProcessesAndGpus, made)
    clear(ProcessesAndGpus, environment(launches=(launch("srun", processes=4, gpus=4),)))


def test_tasks_of_the_batch_script_are_not_started_without_srun() -> None:
    made = environment(
        launches=(launch("sbatch", gpus=8, processes=8, line=2), launch("torchrun", processes=8, line=9))
    )
    clear(ProcessesAndGpus, made)


def test_fewer() -> None:
    made = environment(
        launches=(
            launch("Kubernetes", gpus=8, source="pod.yaml"),
            launch("torchrun", processes=4, source="pod.yaml"),
        )
    )
    found = problem(ProcessesAndGpus, made)
    assert found.severity is WARNING
    assert "4 GPUs are idle" in found.does
    clear(ProcessesAndGpus, environment(launches=(launch("srun", processes=1, gpus=8),)))


def test_gpus_as_the_machine_or_a_variable_tells() -> None:
    four = (launch("torchrun", processes=4),)
    clear(ProcessesAndGpus, environment(launches=four, cards=cards(*["Tesla T4"] * 4)))
    two = environment(
        launches=four, variables=variables(CUDA_VISIBLE_DEVICES="0,1"), cards=cards(*["Tesla T4"] * 4)
    )
    assert problem(ProcessesAndGpus, two).numbers == {"processes": 4, "gpus": 2}


def test_a_word_for_all_gpus() -> None:
    auto = (launch("torchrun", processes_word="gpu"),)
    clear(ProcessesAndGpus, environment(launches=auto, cards=cards(*["Tesla T4"] * 4)))
    nested = (launch("srun", processes=4, gpus=4, line=3), launch("torchrun", processes_word="gpu", line=3))
    assert problem(ProcessesAndGpus, environment(launches=nested)).numbers == {"processes": 16, "gpus": 4}


def test_nothing_told() -> None:
    assert not_here(ProcessesAndGpus, environment(launches=(launch("sbatch", gpus=8, processes=8),)))
    untold(ProcessesAndGpus, environment(launches=(launch("torchrun", processes=8),)))
    untold(ProcessesAndGpus, environment(launches=(launch("sbatch", gpus=8), launch("torchrun", line=3))))


def test_one_process_by_default_needs_the_whole_line() -> None:
    """`torchrun train.py` starts one; `torchrun $ARGS` may start any number."""
    given = launch("sbatch", gpus=8)
    shown = Launch(Quote("job.sh", 9, "torchrun train.py"), program="torchrun", nodes=1, processes=1)
    assert problem(ProcessesAndGpus, environment(launches=(given, shown))).severity is WARNING
    for text in ("python -m torch.distributed.launch", "torchrun $ARGS train.py"):
        cut = Launch(Quote("job.sh", 9, text), program="torchrun", nodes=1, processes=1)
        untold(ProcessesAndGpus, environment(launches=(given, cut)))
