"""Main memory and processes, read from folders that look as /proc and /sys/fs/cgroup do."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from oomph.probe import processes
from oomph.probe.host import host, limit_bytes, pinned_bytes

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
GIB = 1 << 30


@pytest.fixture
def proc(tmp_path):
    """A /proc with processes: number -> (parent, command line)."""

    def make(table, children=True):
        root = tmp_path / "proc"
        for pid, (parent, command) in table.items():
            folder = root / str(pid)
            task = folder / "task" / str(pid)
            task.mkdir(parents=True)
            (folder / "stat").write_text(f"{pid} (odd) name)) S {parent} 1 1 0\n")
            (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in command) + b"\0")
            (folder / "comm").write_text("comm\n")
            (folder / "statm").write_text("1000 10 5 1 0 50 0\n")
            if children:
                mine = [str(other) for other, (above, _) in table.items() if above == pid]
                (task / "children").write_text(" ".join(mine) + " ")
        (root / "self").mkdir(parents=True, exist_ok=True)
        return root

    return make


TABLE = {
    1: (0, ["init"]),
    10: (1, ["/usr/bin/python3.11", "-u", "/home/me/train.py", "--token", "secret"]),
    11: (10, ["python", "-m", "torch.distributed.run", "x.py"]),
    12: (11, ["python", "-c", "import secret"]),
    20: (1, ["bash", "-c", "export TOKEN=1"]),
    21: (1, []),
}


@pytest.mark.parametrize("children", [True, False])
def test_families(proc, children):
    root = proc(TABLE, children)
    assert processes.family([10], root) == (10, 11, 12)
    assert processes.family([20, 999], root) == (20,)
    assert processes.family([], root) == ()
    assert processes.descends(12, frozenset({10}), root)
    assert processes.descends(12, frozenset({12}), root)
    assert not processes.descends(20, frozenset({10}), root)
    assert not processes.descends(999, frozenset({10}), root)
    assert processes.parent(12, root) == 11


def test_names_without_arguments(proc):
    root = proc(TABLE)
    names = {pid: processes.name(pid, root) for pid in (*TABLE, 999)}
    assert names == {
        1: "init",
        10: "python3.11 train.py",
        11: "python -m torch.distributed.run",
        12: "python",
        20: "bash",
        21: "comm",
        999: "",
    }


def test_resident_memory_with_children(proc, tmp_path):
    root = proc(TABLE)
    (root / "meminfo").write_text("MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:  512 kB\nBuffers: 9 kB\n")
    found = host([10], proc=root, cgroups=tmp_path, shm=tmp_path / "none")
    assert found.rss_bytes == 3 * 10 * PAGE
    assert found.children == 2
    assert (found.total_bytes, found.available_bytes) == (1 << 20, 1 << 19)
    assert found.shm_free_bytes is None
    assert found.cgroup_limit_bytes is None


def test_without_proc_nothing_is_known(tmp_path):
    found = host([10], proc=tmp_path / "no", cgroups=tmp_path / "no", shm=tmp_path / "no")
    assert (found.rss_bytes, found.total_bytes, found.cgroup_limit_bytes, found.children) == (
        None,
        None,
        None,
        0,
    )


@linux
def test_this_process_and_a_real_child():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.family([os.getpid()])
        found = host([os.getpid()])
        assert found.children >= 1
        own = host()
        assert own.children == 0
        assert (own.rss_bytes or 0) > 1 << 20
        assert (found.rss_bytes or 0) > 1 << 20
        assert (own.total_bytes or 0) >= (own.available_bytes or 1) > 1
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        (
            "0::/a/b\n",
            {"a/b/memory.max": "max", "a/memory.max": f"{3 * GIB}", "memory.max": f"{8 * GIB}"},
            3 * GIB,
        ),
        ("0::/\n", {"memory.max": f"{2 * GIB}\n"}, 2 * GIB),
        ("0::/../../x\n", {"memory.max": f"{2 * GIB}\n"}, 2 * GIB),
        ("0::/\n", {"memory.max": "max"}, None),
        ("0::/\n", {}, None),
        ("5:memory:/docker/x\n4:cpu:/\n", {"memory/docker/x/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("5:cpu,memory:/gone\n", {"memory/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
)
def test_limits_of_control_groups(tmp_path, cgroup, files, limit):
    root, groups = tmp_path / "proc", tmp_path / "cgroup"
    (root / "self").mkdir(parents=True)
    (root / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert limit_bytes(root, groups) == limit


def test_pinned_memory_is_what_torch_counts(monkeypatch):
    def torch_with(initialized, stats):
        return SimpleNamespace(
            cuda=SimpleNamespace(is_initialized=lambda: initialized, host_memory_stats=lambda: stats)
        )

    monkeypatch.setitem(sys.modules, "torch", torch_with(True, {"allocated_bytes.current": 5}))
    assert pinned_bytes() == 5
    monkeypatch.setitem(sys.modules, "torch", torch_with(False, {"allocated_bytes.current": 5}))
    assert pinned_bytes() is None
    monkeypatch.setitem(sys.modules, "torch", torch_with(True, {}))
    assert pinned_bytes() is None
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert pinned_bytes() is None
    old = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", old)
    assert pinned_bytes() is None
