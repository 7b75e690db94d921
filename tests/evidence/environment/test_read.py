"""Whole inputs: reports that mix everything, prefixes and colours, what is no text, what tells nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomph.errors import InputError
from oomph.evidence.environment.read import read_environment
from tests.evidence.environment.test_smi_query import A100
from tests.evidence.environment.test_smi_table import OLD
from tests.evidence.environment.texts import given as text_given
from tests.evidence.environment.texts import mib

REPORT = f"""
### Describe the bug

Training hangs, `nvidia-smi` shows this:

```
{OLD.strip()}
```

<details><summary>collect_env</summary>

```text
PyTorch version: 2.0.1+cu118
CUDA used to build PyTorch: 11.8
OS: Ubuntu 20.04.6 LTS (x86_64)
Nvidia driver version: 450.80.02
```
</details>

    (base) me@box:~$ env | grep NCCL
    NCCL_DEBUG=INFO
    NCCL_SOCKET_IFNAME=eno1

My script:

```bash
#!/bin/bash
export NCCL_IB_DISABLE=1
torchrun --nproc_per_node=2 train.py
```
and the Dockerfile
```dockerfile
FROM nvidia/cuda:11.8.0-runtime-ubuntu20.04
ENV NCCL_P2P_DISABLE=1
RUN pip install torch==2.0.1
```
"""


def test_an_issue_report(tmp_path) -> None:
    told = text_given(tmp_path, REPORT, "issue.md")
    assert [one.name for one in told.cards] == ["Tesla V100-SXM2..."] * 2
    assert [one.value for one in told.drivers] == ["450.80.02"]
    assert [(one.version, one.cuda, one.wanted) for one in told.torch] == [
        ("2.0.1", "11.8", False),
        ("2.0.1", "", True),
    ]
    assert {one.name: (one.value, one.scope) for one in told.variables} == {
        "NCCL_DEBUG": ("INFO", "process"),
        "NCCL_SOCKET_IFNAME": ("eno1", "process"),
        "NCCL_IB_DISABLE": ("1", "script"),
        "NCCL_P2P_DISABLE": ("1", "image"),
    }
    assert [(one.program, one.processes) for one in told.launches] == [("torchrun", 2)]
    lines = (tmp_path / "issue.md").read_text().split("\n")
    for quote in [told.variables[0].quote, told.cards[1].quote, told.images[0].quote, told.torch[0].quote]:
        assert quote.text in lines[quote.line - 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(f"2024-05-02T09:14:05.123456Z {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"2024-05-02T09:14:05.123456789+00:00 stdout F {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n")),
        lambda text: "\n".join(f"trainer-1  | {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"[rank0]: {line}" for line in text.split("\n")),
        lambda text: f"```\n{text}\n```\n",
        lambda text: f"{text}\nGPU 0",
    ],
)  # fmt: skip
def test_what_collectors_and_pastes_do_to_a_text(tmp_path, change) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(change(A100.strip("\n")).encode())
    told = read_environment([path])
    assert [(one.index, one.total_bytes) for one in told.cards] == [(0, mib(81920)), (1, mib(81920))]
    assert len(told.cards[0].processes or ()) == 2
    path.write_bytes(change(OLD.strip("\n")).encode())
    told = read_environment([path])
    assert [len(one.processes or ()) for one in told.cards] == [2, 0]


def test_stdin_compressed_and_wide(tmp_path) -> None:
    assert read_environment(["-"], stdin=io.BytesIO(OLD.encode())).cards
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(OLD.encode()))
    assert read_environment([tmp_path / "a.txt.gz"]).cards
    (tmp_path / "b.txt").write_bytes(OLD.encode("utf-16"))
    assert read_environment([tmp_path / "b.txt"]).cards


def test_a_folder_with_other_things(tmp_path) -> None:
    (tmp_path / "smi.txt").write_text(OLD)
    (tmp_path / "model.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "train.py").write_text("import torch\nimport os\n\ndef main():\n    pass\n")
    (tmp_path / "empty").write_text("")
    told = read_environment([tmp_path])
    assert [Path(name).name for name, _ in told.sources] == ["smi.txt"]
    reasons = {Path(name).name: why for name, why in told.passed_over}
    assert set(reasons) == {"model.bin", "train.py", "empty"}
    assert "--script" in reasons["train.py"]


def test_two_drivers_are_both_kept(tmp_path) -> None:
    told = text_given(tmp_path, OLD + "\n\nNvidia driver version: 535.54.03\n")
    assert [one.value for one in told.drivers] == ["450.80.02", "535.54.03"]


def test_what_stands_nowhere_is_not_told(tmp_path) -> None:
    told = text_given(tmp_path, "NCCL_DEBUG=INFO\n")
    assert told.told == {"variables"}
    assert not told.tells("cards")
    assert told.cards == ()


@pytest.mark.parametrize("content", [b"", b"\n\n", b"Hello, this is a text.\n", bytes(range(256)) * 64])
def test_nothing_to_read_is_said_in_one_sentence(tmp_path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"nvidia-smi"):
        read_environment([path])
    with pytest.raises(InputError, match=r"does not exist"):
        read_environment([tmp_path / "missing"])


BOMB = "apiVersion: v1\nkind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB + "spec:\n  containers: [{name: a, image: 'x:1'}]\n",
        "apiVersion: v1\nkind: Pod\nspec: " + "[" * 5_000,
        "apiVersion: v1\nkind: Pod\nspec:\n" + "".join(" " * n + "a:\n" for n in range(1, 3_000)),
        "apiVersion: v1\nkind: Pod\nx: &x\n  containers: *x\n",
        '{"apiVersion": "v1", "kind": ' + "[" * 100_000,
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "' + "c" * 99 + '">]><nvidia_smi_log>' + "&b;" * 9_999,
        "#!/bin/bash\nexport A=" + "$(" * 20_000,
        "#!/bin/bash\n" + "export A='\n" * 20_000,
        "#!/bin/bash\nexport A=" + "${A:-" * 9_000,
        "#!/bin/bash\n" + "bash -c '" * 300,
        "#!/bin/bash\n" + "bash <<A\n" * 9_000,
        "torchrun --nproc_per_node=2 'a.py\n" * 20_000,
        "export A=$((" + "(" * 9_000,
        "#!/bin/bash\nA='a b'\n" + "A=\"$A $A\"\n" * 60 + "torchrun $A\n",
        "#!/bin/bash\nA='a b'\n" + "A+=$A$A\n" * 60 + "torchrun $A\n",
        "FROM a\nENV A=abcdefgh\n" + "ENV A=$A$A$A\n" * 60,
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - {name: A0, value: abcdefgh}\n"
        + "".join(f"    - {{name: A{n}, value: $(A{n - 1})$(A{n - 1})}}\n" for n in range(1, 60)),
        "".join(f"GPU {n % 999}: NVIDIA A{n}\n" for n in range(60_000)),
        "".join(f"PyTorch version: 2.{n % 99}.{n % 98}\nNvidia driver version: 5{n}.1\n" for n in range(30_000)),
        "".join(f"rank {n}: using cuda:{n % 8}\n" for n in range(30_000)),
        "".join(f"Duplicate GPU detected : rank {n} and rank 0 both on CUDA device {n:x}\n" for n in range(20_000)),
        "a: b\nkind: c\napiVersion: d\n" + "? " * 9_000,
        "docker run " + "-e A=b " * 9_000 + "x",
        "#SBATCH --nodes=" + "9" * 9_000 + "\nsrun a\n",
        "JobId=1 " + "A=b " * 9_000,
        "FROM a\nENV " + "A=$A " * 9_000,
        "FROM a AS a\nFROM a\n" * 500,
        "GPU 00000000:00:00.0\n" + "".join(" " * (n % 90) + f"k{n} : v\n" for n in range(9_000)),
        "| " * 100_000,
        "NCCL_DEBUG=" + "x" * 1_000_000,
        "$ " * 100_000 + "\n",
        "(" * 100_000 + "base) a@b:~$ ls\n",
        ("a" * 300 + "@b:~") * 2_000,
        "services:\n  a: &a {b: *a}\n",
        "1: e: <" * 40_000,
        "torch " * 50_000 + "2.0.1\n" + "'sm_80', " * 20_000,
        "RANK=1\n" * 50_000,
        "rank 1 " * 30_000 + "cuda:0",
    ],
)  # fmt: skip
def test_hostile_texts_end_soon(tmp_path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    begin = time.process_time()
    with contextlib.suppress(InputError):
        read_environment([path])
    # No measurement: a search that is not linear takes minutes here.
    assert time.process_time() - begin < 30


def test_of_a_huge_file_its_ends_are_read(tmp_path) -> None:
    path = tmp_path / "kernel.log"
    line = b"[1.0] something else happened on the machine, as it does all the time\n"
    xid = b"[9.0] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    path.write_bytes(OLD.encode() + line * 150_000 + xid)
    told = read_environment([path])
    assert len(told.cards) == 2
    assert [one.number for one in told.xids] == [79]
    assert told.xids[0].quote.line == len(OLD.splitlines()) + 150_000 + 1
    assert any("MiB" in note for note in told.notes)


WORDS = st.sampled_from(
    [
        "GPU 0: NVIDIA A100",
        "|   0  NVIDIA A100  On  | 00000000:07:00.0 Off |   0 |",
        "Driver Version: 1.2",
        "NVRM: Xid (PCI:0000:3b:00): 79, ",
        "Process ID : 9999999999999999999",
        "rank 1 nranks 2 cudaDev 0 busId 7000",
        "torchrun --nproc_per_node=",
        "apiVersion: v1\nkind: Pod\n",
        '<gpu id="0:0">',
        "2.0.1+cu118",
        *("torch", "FROM ", "ENV A=", "export ", "#SBATCH -N", "services:", "docker run ", "srun ", "-e "),
        *("RANK=", "MemTotal: ", "kB", "Processes", "```", "$ ", "# ", "'", '"', "{", "}", "[", "]"),
        *("&a ", "*a", ": ", "- ", "=", "==", "--", "<<EOF", "$(", "${A:-", "`", "|", "\\"),
        *("\n", "\\\n", "  ", "\t", "\r", "\x1b[", "\x00", "\ufeff", "é", "٣", "²", "79"),
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=60))
def test_no_text_raises_anything_else(tmp_path, pieces: list[str]) -> None:
    data = "".join(pieces).encode("utf-8", "surrogatepass")
    path = tmp_path / "x.sh"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        read_environment([path])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_a_real_text_raises(tmp_path, data) -> None:
    text = data.draw(st.sampled_from([A100, OLD, REPORT]))
    cut = data.draw(st.integers(0, len(text)))
    at = data.draw(st.integers(0, len(text)))
    noise = data.draw(st.text(max_size=20))
    path = tmp_path / "x.txt"
    path.write_bytes((text[:at] + noise + text[at:])[:cut].encode("utf-8", "surrogatepass"))
    with contextlib.suppress(InputError):
        read_environment([path])
