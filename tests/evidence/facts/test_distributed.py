# ruff: noqa: E501 (lines as the launchers print them)
"""World size, launchers, frameworks, ZeRO; pids of ranks and engines."""

import pytest

from oomph.evidence.facts import parse
from oomph.evidence.model import Document, Line
from tests.evidence.facts.text import facts, pairs


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (
            "[2025-03-04 09:00:44,020] [INFO] [launch.py:80:main] WORLD INFO DICT: {'localhost': [0, 1, 2, 3]}",
            "4",
        ),
        ("WORLD INFO DICT: {'node-0': [0, 1, 2, 3], 'node-1': [0, 1, 2, 3]}", "8"),
        ("[launch.py:92:main] dist_world_size=4", "4"),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4", "4"),
        ("All distributed processes registered. Starting with 4 processes", "4"),
        ("[launcher] 8 workers via torch.multiprocessing.spawn, backend nccl", "8"),
        ("[launch] 4 processes, NCCL_DEBUG=INFO", "4"),
        ("INFO colossalai - process 0 of 8 on cuda:0", "8"),
        ("[rank 0/4] resuming from ckpt/step_1.pt", "4"),
        ("run grpo: 2 nodes x 8, engine colocate", "16"),
        ("torchrun --nproc_per_node=8 --nnodes=2 train.py", "16"),
        ("torchrun --nproc-per-node 4 train.py", "4"),
        ("accelerate launch --num_processes 4 train.py", "4"),
        ("Num processes: 4", "4"),
        ("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8", "8"),
        ("world_size ................... 4", "4"),
    ],
)
def test_world_size(line, size):
    assert pairs(line, "world_size")[-1] == ("world_size", size)


@pytest.mark.parametrize(
    "line",
    [
        "quantizer: 8 workers, calibration set 512 samples",
        "4 workers [812 items]",
        "This DataLoader will create 4 worker processes in total. Our suggested max number of worker in current system is 2",
        "torchrun --nproc_per_node=8 --nnodes=1:4 train.py",
        "num_processes: 8",
        "GPU 3 of 8",
    ],
)
def test_other_counts(line):
    assert pairs(line, "world_size") == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('  File "/opt/lib/site-packages/transformers/trainer.py", line 1, in train', "transformers"),
        ('  File "C:\\venv\\Lib\\site-packages\\transformers\\trainer.py", line 1, in train', "transformers"),
        ('  File "/opt/lib/site-packages/lightning/pytorch/trainer/call.py", line 47, in f', "lightning"),
        ('  File "/opt/lib/site-packages/deepspeed/runtime/engine.py", line 1, in f', "deepspeed"),
        ('  File "/workspace/megatron/training.py", line 147, in pretrain', "megatron"),
        ('  File "/opt/lib/site-packages/torchtune/utils/x.py", line 1, in f', "torchtune"),
        ('  File "/opt/torch/distributed/fsdp/_fully_shard/_fsdp_state.py", line 314, in _pre_forward', "fsdp2"),
        ('  File "/opt/torch/distributed/fsdp/fully_sharded_data_parallel.py", line 1, in forward', "fsdp"),
        ('  File "/opt/torch/nn/parallel/distributed.py", line 1890, in forward', "ddp"),
        ('  File "/opt/lib/site-packages/diffusers/pipelines/pipeline_utils.py", line 461, in to', "diffusers"),
    ],
)  # fmt: skip
def test_frameworks(line, name):
    assert pairs(line, "framework") == [("framework", name)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("E0304 09:41:17.804000 4001 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 5100) of binary: p", "torchrun"),
        ("+ torchrun --nproc_per_node 2 train.py", "torchrun"),
        ("accelerate launch finetune.py", "accelerate"),
        ("[2025-03-04 09:00:44,020] [INFO] [launch.py:80:main] WORLD INFO DICT: {'localhost': [0, 1]}", "deepspeed"),
        ("+ deepspeed --num_gpus 2 train.py", "deepspeed"),
        ("srun: error: node-0: task 0: Exited with exit code 1", "srun"),
        ("ray.exceptions.RayTaskError(OutOfMemoryError): ray::TrainWorker.run()", "ray"),
        ('  File "/opt/torch/multiprocessing/spawn.py", line 167, in spawn', "spawn"),
    ],
)  # fmt: skip
def test_launchers(line, name):
    assert pairs(line, "launcher") == [("launcher", name)]


def test_each_framework_and_launcher_once():
    frame = '  File "/opt/lib/site-packages/transformers/trainer.py", line 1, in train\n'
    assert pairs(frame * 20 + "torchrun t.py\n" * 3, "framework", "launcher") == [
        ("framework", "transformers"),
        ("launcher", "torchrun"),
    ]


def test_zero():
    line = "[INFO] [config.py] zero_optimization: {stage: 3, offload_param: {device: cpu, pin_memory: true}}"
    assert pairs(line, "zero_stage", "offload") == [("zero_stage", "3"), ("offload", "cpu:param")]
    assert ("zero_stage", "3") in pairs(
        "[2025-03-04 09:02:13,777] [INFO] [stage3.py:611:__init__] Reduce bucket size 1"
    )
    assert pairs("Creating torch.bfloat16 ZeRO stage 2 optimizer", "zero_stage") == [("zero_stage", "2")]
    line = "[2025-03-04 11:00:09,330] [INFO] [stage_1_and_2.py:141:__init__] CPU Offload: True"
    assert pairs(line, "zero_stage", "offload", "framework") == [
        ("framework", "deepspeed"),
        ("offload", "cpu:optimizer"),
    ]
    line = "zero_config .... stage=3 offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device='nvme', nvme_path='/x')"
    assert pairs(line, "zero_stage", "offload") == [("zero_stage", "3"), ("offload", "nvme:optimizer")]
    assert pairs("fsdp_offload_params: true", "offload") == [("offload", "cpu:param")]
    assert pairs("offload_param=None offload_optimizer=None", "offload") == []


@pytest.mark.parametrize(
    ("line", "pids"),
    [
        ("rank 0 pid 88110, rank 1 pid 88111", [("88110", 0), ("88111", 1)]),
        ("worker: global_rank=3 (pid: 412)", [("412", 3)]),
        ("local_rank 3 pid 412", [("412", None)]),
        ("[PID:412] [RANK:3] GPU memory usage baseline: 0.0GB", [("412", 3)]),
        (
            "failed (exitcode: 1) local_rank: 5 (pid: 20717) of binary: /opt/conda/bin/python",
            [("20717", None)],
        ),
        ("Sending process 20712 closing signal SIGTERM", [("20712", None)]),
        ("Killing subprocess 31", [("31", None)]),
        ("[launch.py:253:main] process 88110 spawned with command: ['python']", [("88110", None)]),
        ("node-0:5100:5177 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P", [("5100", None)]),
        (
            "node-1:7003:7310 [3] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'",
            [("7003", None)],
        ),
        ("RuntimeError: DataLoader worker (pid 341) is killed by signal: Killed.", []),
        ("DataLoader worker (pid(s) 13557) exited unexpectedly", []),
        ("Process 1733 has 408.00 MiB memory in use.", []),
    ],
)
def test_pids_of_ranks(line, pids):
    assert [(fact.value, fact.rank) for fact in facts(line) if fact.name == "rank_pid"] == pids


def test_rays_actors_are_known_by_their_stream():
    actors = [
        "RolloutWorker:40911",
        "ActorWorker:41230",
        "VLLMEngine:135770",
        "LLMRayActor:20890",
        "FSDPPolicyWorker:9",
    ]
    actors += ["ActorModelRayActor:20931", "ActorRolloutRefWorker:77", "DataActor:5", ":6", "TrainWorker:x"]
    lines = [Line("hello", number, f"ray:{actor}") for number, actor in enumerate(actors * 2)]
    found = [(f.name, f.value) for f in parse(Document("x", lines)) if f.name.endswith("_pid")]
    assert found == [
        ("engine_pid", "40911"),
        ("rank_pid", "41230"),
        ("engine_pid", "135770"),
        ("engine_pid", "20890"),
        ("rank_pid", "9"),
        ("rank_pid", "20931"),
        ("rank_pid", "77"),
    ]
    quote = next(f.quote for f in parse(Document("x", lines)) if f.name == "engine_pid")
    assert quote.text == "(RolloutWorker pid=40911) hello"


def test_an_actors_prefix_that_is_still_in_the_text():
    assert pairs("(VllmWorker TP0 pid=135770) INFO ready", "engine_pid") == [("engine_pid", "135770")]


@pytest.mark.parametrize(
    "line",
    [
        "gpu_memory_utilization 0.3",
        "gpu_memory_utilization=0.3",
        "'gpu_memory_utilization': 0.3",
        "x gpu_memory_utilization (0.3) = 23.73GiB",
        "mem_fraction_static=0.3",
    ],
)
def test_engine_utilization(line):
    assert pairs(line, "engine_utilization") == [("engine_utilization", "0.3")]


def test_advice_about_engine_utilization():
    assert pairs("Try decreasing `gpu_memory_utilization` to 0.3", "engine_utilization") == []
    assert pairs("try gpu_memory_utilization=0.3", "engine_utilization") == []
