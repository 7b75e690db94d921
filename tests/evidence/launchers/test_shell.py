"""Shells, containers, CI runners, IDEs, wrapper scripts, notebooks."""

import pytest

from oomph.evidence.launchers import signal_of
from oomph.evidence.launchers.signals import signal_code
from tests.evidence.launchers.text import codes, exits


@pytest.mark.parametrize(
    ("line", "code", "pid"),
    [
        ("Killed", -9, None),
        ("  Killed  ", -9, None),
        ("Terminated", -15, None),
        ("Segmentation fault (core dumped)", -11, None),
        ("Bus error (core dumped)", -7, None),
        ("run.sh: line 12:  4117 Killed                  python train.py --config c.yaml", -9, 4117),
        (
            "/var/spool/slurmd/job7/slurm_script: line 30: 88 Segmentation fault      (core dumped) python t.py",
            -11,
            88,
        ),
        ("[1]+  Killed                  python train.py", -9, None),
        ("[1]    4117 killed     python train.py", -9, 4117),
        ("zsh: killed     python train.py", -9, None),
        ("fish: Job 1, 'python train.py' terminated by signal SIGKILL (Forced quit)", -9, None),
        ("Command terminated by signal 9", -9, None),
    ],
)
def test_signals(line, code, pid):
    assert codes(line) == [(code, None, pid)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exit code 0", 0),
        ("job finished, exit code 0", 0),
        ("exit code 137", 137),
        ("train-0 exited with code 137", 137),
        ("      Exit Code:    137", 137),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", 137),
        ("Process finished with exit code -1073741819 (0xC0000005)", -1073741819),
        ("command terminated with exit code 137", 137),
        ("[launcher] command exited with status 1 after 7574 s", 1),
        ("job ended with code 1", 1),
        ("training process ended with code 1", 1),
        ("##[error]Process completed with exit code 137.", 137),
        ("ERROR: Job failed: exit code 137", 137),
        ("exit status 2", 2),
        ("exited (137)", 137),
    ],
)
def test_codes_stay_as_printed(line, code):
    assert codes(line) == [(code, None, None)]


@pytest.mark.parametrize(
    "line",
    [
        "+ echo 'job ended with code 1'",
        "An exit code 137 usually means that the kernel killed the process",
        "If the job stops with exit code 137, ask for more memory",
        "returns exit code 0 when nothing was found",
        "nvidia-smi failed with exit code 9",
        "git exited with code 128",
        "wandb: Waiting for W&B process to finish... (failed 1).",
        "Killed by my own curiosity, I looked at the log",
        "Killed process count so far 0",
        "loss scale: 65536, exit code unknown",
        "step 137 loss 0.3",
        "  exitcode  : 1 (pid: 20715)",
    ],
)
def test_not_an_exit(line):
    assert exits(line) == []


def test_kubectl_describe():
    (end,) = exits("    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n")
    assert (end.code, end.killer) == (137, "kernel")


def test_pod_status_as_json_and_in_a_list():
    (end,) = exits('"terminated": {\n  "exitCode": 137,\n  "reason": "OOMKilled",\n}')
    assert (end.code, end.killer) == (137, "kernel")
    (end,) = exits("train-0   0/1     OOMKilled   0          5m12s")
    assert (end.code, end.killer, end.launcher) == (-9, "kernel", "kubernetes")


def test_docker_inspect_says_no():
    (end,) = exits('"OOMKilled": false,\n"ExitCode": 137,')
    assert (end.code, end.killer) == (137, "")


@pytest.mark.parametrize(
    "prompt", ["(venv) C:\\work>echo %ERRORLEVEL%", "$ echo $?", "PS C:\\> echo $LASTEXITCODE"]
)
def test_status_asked_for_at_a_prompt(prompt):
    (end,) = exits(f"{prompt}\n1\n")
    assert (end.code, end.quote.line) == (1, 2)


def test_notebook_kernel():
    (end,) = exits("The kernel appears to have died. It will restart automatically.")
    assert (end.code, end.launcher) == (None, "jupyter")
    (end,) = exits("Your session crashed after using all available RAM.")
    assert end.launcher == "jupyter"


def test_signal_of_reads_both_spellings():
    assert [signal_of(code) for code in (-9, 137, 143, -15, 0, 1, 128, None, -1073741819)] == [
        9, 9, 15, 15, None, None, None, None, None,
    ]  # fmt: skip


def test_signal_names():
    assert [signal_code(name) for name in ("SIGKILL", "Signals.SIGTERM", "9", "Bus error", "SIGWHAT", "0", "")] == [
        -9, -15, -9, -7, None, None, None,
    ]  # fmt: skip
