"""The command runs as it would without: exit codes, signals, output, terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.recording_command.commands import RECORD, alive, end_of, python, record, start

READY = "print('ready', flush=True)\n"
WAIT = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: time.sleep(0.02)\n"


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        (("true",), 0, None),
        (("sh", "-c", "exit 3"), 3, None),
        (("sh", "-c", "exit 255"), 255, None),
        (("sh", "-c", "kill -9 $$"), 137, 9),
        (("sh", "-c", "kill -TERM $$"), 143, 15),
    ],
)
def test_exit_codes(tmp_path, command, code, number):
    assert record(tmp_path / "run", *command)[0] == code
    end = end_of(tmp_path / "run")
    assert (end.exit_code, end.signal) == (code, number)


def test_a_command_that_is_not_there_and_one_that_cannot_be_run(tmp_path):
    (tmp_path / "plain").write_text("echo hello\n")
    code, _, err = record(tmp_path / "a", "no-such-command-anywhere")
    assert (code, b"command not found" in err) == (127, True)
    code, _, err = record(tmp_path / "b", str(tmp_path / "plain"))
    assert (code, b"cannot be run" in err) == (126, True)
    assert record(tmp_path / "c", str(tmp_path))[0] == 126
    assert end_of(tmp_path / "a").exit_code == 127


def test_both_streams_come_through_and_are_kept_byte_for_byte(tmp_path):
    data = bytes(range(256)) * 300
    code = "import os, sys\nd = sys.stdin.buffer.read()\nos.write(1, d)\nos.write(2, d[::-1])\n"
    assert record(tmp_path / "run", *python(code), data=data) == (0, data, data[::-1])
    assert (tmp_path / "run/job.out").read_bytes() == data
    assert (tmp_path / "run/job.err").read_bytes() == data[::-1]


def test_output_comes_while_the_command_runs(tmp_path):
    with start(tmp_path / "run", *python(READY + "input()"), stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


def test_an_output_of_hundreds_of_megabytes_is_kept_at_both_ends(tmp_path):
    code = "import os\nb = b'x' * 65535 + b'\\n'\nfor _ in range(3200): os.write(1, b)\nprint('the end')\n"
    with start(
        tmp_path / "run", *python(code), options=("--keep", "8MiB"), stdout=subprocess.DEVNULL
    ) as process:
        assert process.wait(120) == 0
    kept = sum(file.stat().st_size for file in (tmp_path / "run").glob("job*.out"))
    assert kept <= 8 << 20
    assert (tmp_path / "run/job-last.out").read_bytes().endswith(b"the end\n")


def test_a_reader_that_goes_away_is_seen_by_the_command(tmp_path):
    code = "import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: os.write(1, b'y\\n' * 999)\n"
    with start(tmp_path / "run", *python(code)) as process:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_a_signal_to_us_alone_reaches_the_command_once(tmp_path, name):
    number = getattr(signal, name)
    code = (
        "import signal, sys\ngot = []\n"
        f"signal.signal({int(number)}, lambda n, f: got.append(n))\n{READY}import time\n"
        "while not got: time.sleep(0.01)\ntime.sleep(0.2)\nprint(len(got))\nsys.exit(7)\n"
    )
    with start(tmp_path / "run", *python(code)) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == b"1\n"
        assert process.wait(60) == 7


def test_a_command_that_ignores_sigterm_lives_on_until_the_next_signal(tmp_path):
    code = (
        f"import signal\nsignal.signal(signal.SIGTERM, lambda n, f: print('no', flush=True))\n{READY}{WAIT}"
    )
    with start(tmp_path / "run", *python(code)) as process:
        process.stdout.readline()
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == b"no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (130, 1)


def test_a_signal_that_the_command_dies_of(tmp_path):
    with start(tmp_path / "run", *python(READY + WAIT)) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert end_of(tmp_path / "run").signal == 15


def test_a_daemon_that_is_left_behind_holds_nobody_up(tmp_path):
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('pid', 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n"
        "print('started')\n"
    )
    code, out, err = record(tmp_path / "run", *python(code), cwd=tmp_path)
    pid = int((tmp_path / "pid").read_text())
    try:
        assert (code, out) == (0, b"started\n")
        assert b"left behind" in err
        assert alive(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_signal_that_was_ignored_stays_ignored(tmp_path):
    code = "import signal\nprint(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    words = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *RECORD, "--run-dir", str(tmp_path / "run"), "--"]
    out = subprocess.run([*words, *python(code)], capture_output=True, timeout=60, check=False)
    assert out.stdout == b"True\n"


def test_the_command_s_signals_are_not_blocked(tmp_path):
    code = "import signal\nprint(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert record(tmp_path / "run", *python(code))[1] == b"[]\n"


def test_no_descriptor_of_ours_is_open_in_the_command(tmp_path):
    out = record(tmp_path / "run", *python("import os\nprint(sorted(os.listdir('/proc/self/fd'))[:9])"))[1]
    assert out == b"['0', '1', '2', '3']\n", "the fourth is the listing's own"


def test_a_stderr_that_nobody_reads_changes_no_exit_code(tmp_path):
    words = [*RECORD[:-4], "--run-dir", str(tmp_path / "run"), "--", "sh", "-c", "sleep 0.3; exit 5"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process.stderr.close()
    assert process.wait(60) == 5


def test_a_recorder_with_a_bug_does_not_hold_up_the_command(tmp_path):
    from oomph.recording.command.pump import Pump
    from oomph.recording.command.terminal import Channel

    def keep(index: int, data: bytes) -> None:
        raise KeyError("a bug")

    outer, inner = os.pipe()
    back, target = os.pipe()
    pump = Pump([Channel(outer, inner, target, terminal=False)], keep)
    pump.start()
    os.write(inner, b"one")
    assert os.read(back, 9) == b"one"
    os.write(inner, b"two")
    assert os.read(back, 9) == b"two"
    os.close(inner)
    pump.finish()
    assert "a bug" in pump.trouble
    for end in (back, target):
        os.close(end)


def test_without_a_stdout(tmp_path):
    words = [
        "sh",
        "-c",
        'exec "$@" >&-',
        "sh",
        *RECORD,
        "--run-dir",
        str(tmp_path / "run"),
        "--",
        "sh",
        "-c",
        "exit 5",
    ]
    assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 5


class Terminal:
    """A command with a terminal of its own, as a shell without job control starts it."""

    def __init__(self, *words: str) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvp(words[0], words)  # noqa: S606 - a shell would be another process

    def read_to(self, text: bytes) -> bytes:
        seen, until = b"", time.monotonic() + 60
        while text not in seen and time.monotonic() < until:
            if select.select([self.file], [], [], 0.1)[0]:
                try:
                    seen += os.read(self.file, 4096)
                except OSError:
                    break
        assert text in seen, seen
        return seen

    def type(self, keys: bytes) -> None:
        os.write(self.file, keys)

    def end(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


def on_terminal(run, code: str) -> Terminal:
    return Terminal(*RECORD, "--run-dir", str(run), "--", sys.executable, "-S", "-c", code)


def test_a_terminal_stays_a_terminal(tmp_path):
    code = "import os\nprint([os.isatty(fd) for fd in (0, 1, 2)], input('name? '))\n"
    terminal = on_terminal(tmp_path / "run", code)
    terminal.read_to(b"name? ")
    terminal.type(b"me\n")
    terminal.read_to(b"[True, True, True] me")
    assert terminal.end() == 0
    assert (tmp_path / "run/job.out").read_bytes().endswith(b"[True, True, True] me\n"), (
        "without a terminal's line ends"
    )


def test_ctrl_c_reaches_the_command_once_and_twice(tmp_path):
    code = (
        "import signal, time\ngot = []\n"
        "signal.signal(signal.SIGINT, lambda n, f: (got.append(n), print('got', len(got), flush=True)))\n"
        f"{READY}"
        "while len(got) < 2: time.sleep(0.01)\ntime.sleep(0.2)\nprint('all', len(got))\nraise SystemExit(9)\n"
    )
    terminal = on_terminal(tmp_path / "run", code)
    terminal.read_to(b"ready")
    terminal.type(b"\x03")
    terminal.read_to(b"got 1")
    terminal.type(b"\x03")
    terminal.read_to(b"all 2")
    assert terminal.end() == 9


def test_ctrl_z_stops_both_and_both_go_on(tmp_path):
    terminal = on_terminal(
        tmp_path / "run",
        READY + "import time\nfor n in range(300): print('tick', n, flush=True); time.sleep(0.1)",
    )
    terminal.read_to(b"tick 2")
    terminal.type(b"\x1a")
    stopped = os.waitpid(terminal.pid, os.WUNTRACED)[1]
    assert os.WIFSTOPPED(stopped)
    os.killpg(os.getpgid(terminal.pid), signal.SIGCONT)
    last = int(terminal.read_to(b"tick 6").rsplit(b"tick ", 1)[1].split()[0])
    assert last >= 6
    terminal.type(b"\x03")
    assert terminal.end() in (130, 1)


def test_a_new_size_of_the_terminal_is_passed_on(tmp_path):
    import fcntl
    import struct
    import termios

    code = (
        "import os, signal, time\nsize = lambda *_: print(os.get_terminal_size(1), flush=True)\n"
        f"signal.signal(signal.SIGWINCH, size)\n{READY}{WAIT}"
    )
    terminal = on_terminal(tmp_path / "run", code)
    terminal.read_to(b"ready")
    fcntl.ioctl(terminal.file, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    terminal.read_to(b"columns=77, lines=33")
    terminal.type(b"\x03")
    terminal.end()
