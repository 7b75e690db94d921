"""`oomph.doctor`: is the machine, or the script, the cause."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from oomph.errors import InputError, UsageError

if TYPE_CHECKING:
    from oomph.diagnose.machine.model import CheckFinding, Checkup
    from oomph.diagnose.script.model import Scripts
    from oomph.evidence.environment.model import Environment
    from oomph.job.model import Job

__all__ = ["doctor"]

PathLike = str | os.PathLike[str]


def doctor(
    paths: Sequence[PathLike] = (),
    *,
    scripts: Sequence[PathLike] = (),
    job: PathLike | Sequence[PathLike] | Job | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    python: str | None = None,
    pid: int | None = None,
    ask_cloud: bool = False,
    here: bool | None = None,
) -> Checkup:
    """Checks a machine, and scripts, before or after a failure. Nothing is changed.

    `paths` are what people paste of another machine (nvidia-smi -q, collect_env, env, a Dockerfile, a Slurm script, a
    Kubernetes manifest, ...), folders of such, or "-" (then `stdin` is read); without them, and without `scripts`, this
    machine is asked. `here` asks it beside `scripts`. `scripts` are Python files, notebooks and configurations that are
    looked at without being run. `job` is what is to be trained, as `plan` takes it: some checks need it. `select` and
    `ignore` are code prefixes ("ENV4").

    Of this machine: `python` is the interpreter whose PyTorch is looked at (None: this one), `pid` a running process
    whose variables and limits are looked at instead of this one's, and `ask_cloud` allows one question to the cloud's
    metadata server. Raises InputError where a file, that Python or that process cannot be read, UsageError for options
    that do not go together or a `job` that is none; findings, and what could not be told, are part of the answer.
    """
    if here and paths:
        raise UsageError("this machine is not checked beside files of another: they would be taken for one")
    live = not paths and (here or (here is None and not scripts))
    if not live and (python is not None or pid is not None or ask_cloud):
        raise UsageError(
            "a Python, a process or the cloud is asked on this machine, and files of another were given"
        )
    from oomph.diagnose.machine.engine import check_up
    from oomph.diagnose.machine.model import Asked

    trained, notes = _job(job)
    environment = _environment(paths, stdin, live=live, python=python, pid=pid, ask_cloud=ask_cloud)
    found: Scripts | None = None
    if scripts:
        from oomph.diagnose.script.engine import check_scripts

        found = check_scripts([os.fspath(each) for each in scripts], select=select, ignore=ignore)
        environment = _with_scripts(environment, found)
    checkup = check_up(Asked(environment, trained), select=select, ignore=ignore)
    checkup = replace(checkup, notes=(*notes, *checkup.notes))
    return checkup if found is None else _together(checkup, found, alone=not live and not paths)


def _environment(
    paths: Sequence[PathLike],
    stdin: BinaryIO | None,
    *,
    live: bool,
    python: str | None,
    pid: int | None,
    ask_cloud: bool,
) -> Environment:
    if paths:
        from oomph.evidence.environment.read import read_environment

        return read_environment(paths, stdin=stdin)
    if live:
        from oomph.evidence.environment.live import this_environment

        environment = this_environment(python=python, pid=pid, ask_cloud=ask_cloud)
        for name, given in (("packages", python), ("variables", pid)):
            if given is not None and name in environment.missing:
                raise InputError(environment.missing[name])
        return environment
    from oomph.evidence.environment.model import Environment

    return Environment()


def _job(job: PathLike | Sequence[PathLike] | Job | None) -> tuple[Job | None, tuple[str, ...]]:
    """The job with what nobody says assumed as `plan` assumes it, and what a reader should know of it."""
    if job is None:
        return None, ()
    from oomph.job.defaults import with_defaults
    from oomph.job.inputs import WHOLE, Inputs, read_inputs
    from oomph.job.model import Job
    from oomph.job.placement import with_ranks

    if isinstance(job, Job):
        given = Inputs(job, WHOLE)
    else:
        several = [job] if isinstance(job, (str, os.PathLike)) else list(job)
        given = read_inputs([os.fspath(each) for each in several])
    understood, _ = with_defaults(with_ranks(given.job, {}), set(given.said))
    refused = tuple(f"Of the job, this is not understood: {sentence}." for sentence in given.unsupported)
    return understood, (*given.notes, *refused)


def _with_scripts(environment: Environment, found: Scripts) -> Environment:
    """The environment with the variables that scripts set, which the checks of variables judge."""
    told = environment.told | {"variables"} if found.variables else environment.told
    return replace(
        environment,
        told=frozenset(told),
        variables=(*environment.variables, *found.variables),
        sources=(*environment.sources, *found.sources),
    )


def _together(checkup: Checkup, found: Scripts, *, alone: bool) -> Checkup:
    """Both answers as one: by severity and certainty; within, the machine first, then file by file. Scripts `alone` say
    nothing of a machine: that its checks could not be made is not worth a line each."""
    from oomph.diagnose.machine.model import Severity
    from oomph.diagnose.model import Certainty

    severities, certainties = tuple(Severity), tuple(Certainty)

    def order(one: CheckFinding) -> tuple[int, int]:
        return severities.index(one.problem.severity), certainties.index(one.problem.certainty)

    return replace(
        checkup,
        findings=tuple(sorted((*checkup.findings, *found.findings), key=order)),
        untold=found.untold if alone else (*checkup.untold, *found.untold),
    )
