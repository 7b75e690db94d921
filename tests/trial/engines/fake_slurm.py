"""sbatch, srun, scancel, sacct and scontrol of a cluster that is this machine; jobs run in the background.

    python fake_slurm.py NAME ARGUMENTS...

The folder $FAKE_SLURM holds one folder a job: script, pid, state. What is printed is what Slurm 23.11 prints. A job
name chooses what happens to it: "pending" never begins, "nodefail", "preempted", "timeout" and "oom" end so.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_SLURM"])
ENDS = {"nodefail": "NODE_FAIL", "preempted": "PREEMPTED", "timeout": "TIMEOUT"}


def option(script: str, name: str) -> str:
    found = re.search(rf"^#SBATCH --{name}=(.*)$", script, re.M)
    return found[1].strip("'") if found else ""


def sbatch(path: str) -> int:
    script = Path(path).read_text()
    if option(script, "partition") == "closed":
        sys.stderr.write("sbatch: error: invalid partition specified: closed\n")
        sys.stderr.write("sbatch: error: Batch job submission failed: Invalid partition name specified\n")
        return 1
    number = 1000 + len(list(HOME.iterdir()))
    job = HOME / str(number)
    job.mkdir()
    (job / "script").write_text(script)
    name = option(script, "job-name")
    if name == "pending":
        (job / "state").write_text("PENDING")
    else:
        (job / "state").write_text("RUNNING")
        with subprocess.Popen(
            [sys.executable, __file__, "job", str(number)],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            (job / "pid").write_text(str(process.pid))
            process.returncode = 0  # it is nobody's child soon
    sys.stdout.write(f"Submitted batch job {number}\n")
    return 0


def run(number: str) -> int:
    """A job: its script, as slurmd runs it."""
    job = HOME / number
    script = (job / "script").read_text()
    name, nodes = option(script, "job-name"), option(script, "nodes") or "1"
    environment = {**os.environ, "SLURM_JOB_ID": number, "SLURM_NNODES": nodes, "SLURM_NODEID": "0"}
    environment |= {"SLURM_NTASKS": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_JOB_NODELIST": "node[0-1]"}
    with subprocess.Popen(["bash", str(job / "script")], env=environment) as process:
        signal.signal(signal.SIGTERM, lambda *_: None)
        if name in ENDS:
            while not list(Path(option(script, "output")).parent.parent.glob("out.txt")):
                time.sleep(0.02)
            os.killpg(0, signal.SIGTERM)
            process.wait()
            for pickle in Path(option(script, "output")).parent.glob("*result.pkl"):
                pickle.unlink()  # the node took it with it
            (job / "state").write_text(ENDS[name])
            return 0
        code = process.wait()
    if (job / "state").read_text() == "RUNNING":
        ended = "COMPLETED" if code == 0 else "FAILED"
        (job / "state").write_text("OUT_OF_MEMORY" if name == "oom" else ended)
    return 0


def srun(*arguments: str) -> int:
    number, rest = os.environ["SLURM_JOB_ID"], list(arguments)
    files = {}
    while rest[0].startswith("--"):
        word = rest.pop(0)
        if word in ("--output", "--error"):
            files[word] = rest.pop(0)
    steps = []
    for rank in range(int(os.environ["SLURM_NTASKS"])):
        names = {key: name.replace("%j", number).replace("%t", str(rank)) for key, name in files.items()}
        environment = {
            **os.environ,
            "SLURM_PROCID": str(rank),
            "SLURM_NODEID": str(rank),
            "SLURM_LOCALID": "0",
        }
        with open(names["--output"], "ab") as out, open(names["--error"], "ab") as err:
            steps.append(subprocess.Popen(rest, env=environment, stdout=out, stderr=err))
    signal.signal(signal.SIGTERM, lambda *_: None)
    return max(step.wait() for step in steps)


def scancel(number: str) -> int:
    job = HOME / number
    if (job / "state").read_text() in ("PENDING", "RUNNING"):
        (job / "state").write_text("CANCELLED by 1000")
        if (job / "pid").exists():
            os.killpg(int((job / "pid").read_text()), signal.SIGTERM)
    return 0


def sacct(*arguments: str) -> int:
    if "NO_SACCT" in os.environ:
        sys.stderr.write("Slurm accounting storage is disabled\n")
        return 1
    sys.stdout.write("JobID|State|NodeList\n")
    for number in (arguments[index + 1] for index, word in enumerate(arguments) if word == "-j"):
        if (HOME / number / "state").exists():
            state = (HOME / number / "state").read_text()
            node = "None assigned" if state == "PENDING" else "node0"
            sys.stdout.write(
                f"{number}|{state}|{node}\n{number}.batch|{state}|{node}\n{number}.0|{state}|{node}\n"
            )
    return 0


def scontrol(*arguments: str) -> int:
    state = (HOME / arguments[-1] / "state").read_text().partition(" ")[0]
    sys.stdout.write(
        f"JobId={arguments[-1]} JobName=x UserId=u(1000) JobState={state} Reason=None Dependency=(null) Requeue=0\n"
    )
    return 0


def main() -> int:
    name, *arguments = sys.argv[1:]
    return globals()["run" if name == "job" else name](*arguments)


if __name__ == "__main__":
    sys.exit(main())
