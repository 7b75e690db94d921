"""As many processes start as there are GPUs, or not."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import PER_GPU, STARTS, gpus
from oomph.evidence.environment.model import Environment, Launch
from oomph.evidence.model import Quote

_OPTION = {
    "torchrun": "--nproc-per-node={}",
    "accelerate": "--num_processes={}",
    "deepspeed": "--num_gpus={}",
    "composer": "--nproc={}",
    "srun": "--ntasks-per-node={}",
    "mpirun": "-n {}",
    "mpiexec": "-n {}",
    "horovodrun": "-np {}",
}


@dataclass(frozen=True)
class _Start:
    """What one line starts on a machine. `each` are the launchers from the outside in, with how many each starts."""

    each: tuple[tuple[str, int], ...]
    quote: Quote
    whole: bool

    @property
    def total(self) -> int:
        result = 1
        for _, count in self.each:
            result *= count
        return result


class ProcessesAndGpus(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV508"
    cause = "processes_and_gpus_differ"
    name = "processes-and-gpus-differ"
    means = (
        "A data-parallel job runs one process per GPU. With more, ranks share a card (out-of-memory, NCCL's `Duplicate "
        "GPU detected`) or ask for one that is not there (`invalid device ordinal`). srun with eight tasks on a node "
        "that each start torchrun with eight processes makes 64. With fewer, GPUs are idle."
    )
    decisive_evidence = (
        "The launcher's number against what the scheduler, the pod or the machine gives on one node."
    )
    first_action = (
        "Start one process per GPU: torchrun --nproc-per-node=<GPUs>, under srun with one task per node."
    )
    verify = "nvidia-smi shows one process of the job on each GPU."
    wrong_advice = (
        "A smaller batch when two ranks share a card: each still has its own weights and context there."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        starts = _starts(environment)
        if not starts:
            return NotHere()
        problems: list[Problem] = []
        fine = untold = ""
        for start in starts:
            count = _given(environment, start)
            if count is None:
                untold = (
                    f"{_words(start)} start, and the number of GPUs is not told: --gpus-per-node, a pod's limit or "
                    "`nvidia-smi -L` does"
                )
            elif not start.whole:
                untold = f"how many processes {start.each[-1][0] if start.each else 'it'} starts is not told"
            elif count > 0:
                problem = _judge(start, count, _is_given(environment, start))
                if problem is not None:
                    problems.append(problem)
                else:
                    fine = f"{_words(start)} start for {count} GPUs on a machine"
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold)
        return Clear(fine) if fine else NotHere()


def _starts(environment: Environment) -> list[_Start]:
    """Each line that starts processes. Launchers with the same quote are nested, outermost first."""
    lines: dict[Quote, list[Launch]] = {}
    for one in environment.launches:
        if one.program in STARTS:
            lines.setdefault(one.quote, []).append(one)
    found = []
    for quote, nested in lines.items():
        if len(nested) == 1 and nested[0].program == "srun" and nested[0].processes is None:
            continue
        each: list[tuple[str, int]] = []
        whole = True
        for one in nested:
            if one.processes == 1 and one.program == "torchrun" and not _names_its_script(quote.text):
                whole = False  # one is what torchrun starts by default, and options may stand where nobody sees them
                each.append((one.program, 1))
            elif one.processes is not None:
                each.append((one.program, one.processes))
            elif one.processes_word in ("gpu", "auto"):
                count = gpus(environment)
                whole = whole and count is not None
                each.append((one.program, count or 1))
            else:
                whole = False
        found.append(_Start(tuple(each), quote, whole))
    return found


def _names_its_script(text: str) -> bool:
    """Whether the line shows what is started, and with it every option before."""
    return "nproc" in text or (".py" in text and "$" not in text)


def _given(environment: Environment, start: _Start) -> int | None:
    """GPUs of a machine for this line: of the same document, else as the surroundings say."""
    same = [
        one.gpus
        for one in environment.launches
        if one.gpus is not None and one.quote.source == start.quote.source
    ]
    return max(same) if same else gpus(environment)


def _is_given(environment: Environment, start: _Start) -> bool:
    """Whether the GPUs are the job's own: a scheduler or a pod gave them. Cards that a machine merely has may be meant
    for others. A task may be given several on purpose."""
    text = start.quote.text
    return "gpus-per-task" not in text and any(
        one.gpus is not None and one.quote.source == start.quote.source for one in environment.launches
    )


def _judge(start: _Start, count: int, given: bool) -> Problem | None:
    programs = [program for program, _ in start.each]
    total = start.total
    numbers = {"processes": total, "gpus": count}
    inner = programs[-1]
    if total > count:
        several = [one for one in start.each if one[1] > 1]
        product = (
            f" ({' times '.join(f'{number} of {program}' for program, number in several)})"
            if len(several) > 1
            else ""
        )
        outer = start.each[0][0]
        fix = (
            f"Let {outer} start one task per machine; {inner} starts the rest."
            if len(several) > 1
            else f"Start {count}, one per GPU."
        )
        paste = _OPTION[outer].format(1) if len(several) > 1 else _OPTION[inner].format(count)
        return Problem(
            says=f"{total} processes start on a machine{product}, for {count} GPU{'s' if count > 1 else ''}.",
            does="Ranks share a card or find none: `Duplicate GPU detected`, `invalid device ordinal`, out-of-memory.",
            fix=fix,
            paste=paste,
            subject=inner,
            numbers=numbers,
            evidence=(start.quote,),
        )
    if total < count and given and (inner in PER_GPU or total > 1):
        return Problem(
            says=f"{inner} starts {total} process{'es' if total > 1 else ''} on a machine with {count} GPUs for it.",
            does=f"{count - total} GPUs are idle, unless each process uses several of them (device_map, pipeline).",
            fix=f"Start {count}, one per GPU.",
            paste=_OPTION[inner].format(count),
            subject=inner,
            severity=Severity.WARNING,
            numbers=numbers,
            evidence=(start.quote,),
        )
    return None


def _words(start: _Start) -> str:
    whose = start.each[-1][0] if start.each else "a launcher"
    return f"{start.total} process{'es' if start.total != 1 else ''} of {whose}"
