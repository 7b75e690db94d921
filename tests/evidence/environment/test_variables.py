"""Dumps of variables, of one process or of several ranks."""

from __future__ import annotations

from oomph.evidence.environment.read import read_environment
from tests.evidence.environment.texts import given


def values(told, *, scope: str = "process") -> dict[str, str | None]:
    return {one.name: one.value for one in told.variables if one.scope == scope}


def test_env(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        SHELL=/bin/bash
        PWD=/workspace
        HOME=/root
        HOSTNAME=4d1f00c0ffee
        PATH=/usr/local/bin:/usr/bin
        NCCL_SOCKET_IFNAME=eth0
        PROMPT_COMMAND=
        LS_COLORS=rs=0:di=01;34
        BASH_FUNC_ml%%=() {  eval $($LMOD_CMD bash "$@")
        }
        _=/usr/bin/env
        """,
    )
    found = values(told)
    assert found["NCCL_SOCKET_IFNAME"] == "eth0"
    assert found["PROMPT_COMMAND"] == ""
    assert found["LS_COLORS"] == "rs=0:di=01;34"
    assert told.hostname.value == "4d1f00c0ffee"
    assert told.container.value == "Docker"
    assert told.variable("NCCL_SOCKET_IFNAME").quote.line == 6


def test_export_p_and_quotes(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        declare -x HOME="/root"
        declare -x NCCL_DEBUG="INFO"
        declare -x PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True,max_split_size_mb:128"
        declare -x OLDPWD
        """,
    )
    assert values(told)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb:128"
    told = given(tmp_path, "export HOME='/root'\nexport NCCL_DEBUG='WARN'\n", "dump.env")
    assert values(told)["NCCL_DEBUG"] == "WARN"


def test_an_env_file(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        # for the cluster
        NCCL_IB_HCA="=mlx5_0:1"   # the first
        export OMP_NUM_THREADS=8
        CUDA_VISIBLE_DEVICES=
        TOKEN=${HF_TOKEN}
        """,
        "train.env",
    )
    assert values(told) == {
        "NCCL_IB_HCA": "=mlx5_0:1",
        "OMP_NUM_THREADS": "8",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKEN": None,
    }


def test_single_lines_of_a_report(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        It hangs at init. These are set:

        NCCL_IB_DISABLE=1
        NCCL_P2P_DISABLE=1

        and a = b, learning_rate=3e-4, x=1
        lr=3e-4
        """,
    )
    assert values(told) == {"NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}


def test_ranks_of_one_text(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        RANK=0
        LOCAL_RANK=0
        CUDA_VISIBLE_DEVICES=0
        RANK=1
        LOCAL_RANK=1
        CUDA_VISIBLE_DEVICES=0
        """,
    )
    assert [(one.rank, one.value) for one in told.all_of("CUDA_VISIBLE_DEVICES")] == [(0, "0"), (1, "0")]


def test_ranks_of_several_files_and_of_a_prefix(tmp_path) -> None:
    for rank in (0, 1):
        (tmp_path / f"env.rank{rank}.txt").write_text(f"CUDA_VISIBLE_DEVICES={rank}\nNCCL_DEBUG=INFO\n")
    told = read_environment([tmp_path])
    assert [(one.rank, one.value) for one in told.all_of("CUDA_VISIBLE_DEVICES")] == [(0, "0"), (1, "1")]
    told = given(tmp_path, "[rank2]: CUDA_VISIBLE_DEVICES=5\n[rank3]: CUDA_VISIBLE_DEVICES=6\n", "job.out")
    assert [(one.rank, one.value) for one in told.all_of("CUDA_VISIBLE_DEVICES")] == [(2, "5"), (3, "6")]


def test_proc_environ(tmp_path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"HOME=/root\x00NCCL_DEBUG=INFO\x00RANK=3\x00")
    told = read_environment([path])
    assert told.variable("NCCL_DEBUG").value == "INFO"
    assert told.variable("NCCL_DEBUG").rank == 3


def test_what_says_container_and_wsl(tmp_path) -> None:
    told = given(tmp_path, "KUBERNETES_SERVICE_HOST=10.0.0.1\nNCCL_DEBUG=INFO\n")
    assert told.container.value == "Kubernetes"
    told = given(tmp_path, "WSL_DISTRO_NAME=Ubuntu\nNCCL_DEBUG=INFO\n")
    assert told.wsl.value


def test_os_environ(tmp_path) -> None:
    told = given(tmp_path, "environ({'PATH': '/bin', 'NCCL_DEBUG': 'INFO', 'RANK': '2', 'A': \"it's\"})\n")
    assert values(told) == {"PATH": "/bin", "NCCL_DEBUG": "INFO", "RANK": "2", "A": "it's"}
    assert told.variable("NCCL_DEBUG").rank == 2
    told = given(tmp_path, '{"PATH": "/bin", "NCCL_DEBUG": "WARN"}\n')
    assert values(told)["NCCL_DEBUG"] == "WARN"
