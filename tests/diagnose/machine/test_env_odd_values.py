"""No value of a variable makes a check raise, and none of them is answered with nothing to do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.diagnose.machine.checks import all_checks
from oomph.diagnose.machine.model import Asked
from oomph.hardware.alloc_conf import alloc_options
from oomph.hardware.nccl import nccl_variables, torch_variables
from tests.diagnose.machine.built import cards, environment, interfaces, launch, torch, variables

CHECKS = [check for check in all_checks() if check.code[:4] in ("ENV3", "ENV4", "ENV5")]
NAMES = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "SLURM_JOB_NUM_NODES",
    "NCCL_²",
    *nccl_variables(),
    *torch_variables(),
]
PIECES = [
    *alloc_options(),
    *(
        "True",
        "true",
        "0",
        "1",
        "-1",
        "4MB",
        "0x",
        "08",
        "²",
        "9" * 5000,
        ",",
        ":",
        "[",
        "]",
        "=",
        ";",
        "^",
        ">",
        " ",
    ),
    *("eth0", "lo", "mlx5_0", "LOC", "Ring", "allreduce", "LL128", "INFO", '"', "\x00", "${X}"),
]
VALUES = st.none() | st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=4),
    st.sampled_from(["2.1.0", "2.13.0", ""]),
)
def test_odd_values(values: dict[str, Any], version: str) -> None:
    made = environment(
        "rdma_devices",
        variables=variables(**values),
        torch=torch(version),
        cards=cards("NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090", "unheard of"),
        interfaces=interfaces("lo", "eth0"),
        launches=(launch("torchrun", processes=2, nodes=2),),
    )
    for check in CHECKS:
        answer = check.check(Asked(made))
        if isinstance(answer, tuple):
            assert answer, check.code
            for one in answer:
                assert one.says
                assert one.fix
                assert one.evidence


def test_every_check_is_documented() -> None:
    assert len(CHECKS) >= 22
    for check in CHECKS:
        for text in (
            check.means,
            check.decisive_evidence,
            check.first_action,
            check.verify,
            check.wrong_advice,
        ):
            assert len(text) > 20, check.code
        assert check.cause.replace("_", "-").split("-")[0] == check.name.split("-")[0], check.code
