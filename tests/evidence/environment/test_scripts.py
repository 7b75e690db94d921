"""Shell and Slurm scripts: what they export and start."""

from __future__ import annotations

import pytest

from oomph.errors import InputError
from oomph.units import GIB
from tests.evidence.environment.texts import given


def scripted(told) -> dict[str, str | None]:
    return {one.name: one.value for one in told.variables if one.scope == "script"}


def test_exports_and_expansions(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/usr/bin/env bash
        set -euo pipefail
        NODE_IF=ens8            # not exported itself
        export NCCL_SOCKET_IFNAME=$NODE_IF NCCL_DEBUG="${LOG:-WARN}"
        export NCCL_BUFFSIZE=$((4 * 1024 * 1024))
        export MASTER_ADDR=$(hostname)
        export LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH
        export CUDA_VISIBLE_DEVICES='0,1'; export OMP_NUM_THREADS=4
        for i in 0 1; do
          export LOCAL=$i
        done
        python train.py
        """,
        "run.sh",
    )
    assert scripted(told) == {
        "NCCL_SOCKET_IFNAME": "ens8",
        "NCCL_DEBUG": "WARN",
        "NCCL_BUFFSIZE": "4194304",
        "MASTER_ADDR": None,
        "LD_LIBRARY_PATH": "/usr/local/cuda/compat:",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "OMP_NUM_THREADS": "4",
        "LOCAL": None,
    }
    assert told.variable("NCCL_SOCKET_IFNAME").quote.line == 4


def test_a_variable_of_one_command(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/bin/sh
        NCCL_DEBUG=INFO CUDA_LAUNCH_BLOCKING=1 torchrun --standalone --nproc_per_node 4 \\
            train.py --config a.yaml
        """,
    )
    assert all(one.command for one in told.variables)
    assert scripted(told) == {"NCCL_DEBUG": "INFO", "CUDA_LAUNCH_BLOCKING": "1"}
    (launch,) = told.launches
    assert (launch.program, launch.nodes, launch.processes) == ("torchrun", 1, 4)
    assert "train.py" in launch.quote.text
    assert launch.quote.line == 2


def test_a_heredoc_is_no_script_unless_a_shell_reads_it(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/bin/bash
        cat > other.sh <<EOF
        export NCCL_DEBUG=TRACE
        EOF
        bash <<'EOF'
        export NCCL_ALGO=Ring
        EOF
        export NCCL_PROTO=Simple
        """,
    )
    assert scripted(told) == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}


def test_unset(tmp_path) -> None:
    told = given(tmp_path, "#!/bin/bash\nexport NCCL_DEBUG=INFO\nexport A=1\nunset NCCL_DEBUG\n")
    assert scripted(told) == {"A": "1"}


@pytest.mark.parametrize(
    ("line", "program", "nodes", "processes", "word"),
    [
        ("torchrun train.py", "torchrun", 1, 1, ""),
        ("torchrun --nnodes=2 --nproc-per-node=gpu train.py", "torchrun", 2, None, "gpu"),
        ("torchrun --nnodes 1:4 --nproc_per_node=$N train.py", "torchrun", None, None, ""),
        ("python -m torch.distributed.launch --nproc_per_node=8 train.py", "torchrun", 1, 8, ""),
        ("python3 -u -m torch.distributed.run --nproc-per-node 2 train.py", "torchrun", 1, 2, ""),
        (
            "accelerate launch --multi_gpu --num_processes 16 --num_machines 2 train.py",
            "accelerate",
            2,
            8,
            "",
        ),
        ("accelerate launch --num_processes=4 train.py", "accelerate", 1, 4, ""),
        ("accelerate launch --config_file fsdp.yaml train.py", "accelerate", None, None, ""),
        ("deepspeed --num_gpus=4 train.py --deepspeed ds.json", "deepspeed", None, 4, ""),
        ("deepspeed train.py", "deepspeed", None, None, "gpu"),
        ("deepspeed --include localhost:1,2,5 train.py", "deepspeed", 1, 3, ""),
        ("mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO --mca btl tcp,self python t.py", "mpirun", 2, 8, ""),
        ("mpirun --allow-run-as-root -np 4 python t.py", "mpirun", 1, 4, ""),
        ("nohup torchrun --nproc_per_node=2 train.py > log 2>&1 &", "torchrun", 1, 2, ""),
        ("numactl --cpunodebind=0 torchrun --nproc_per_node=2 train.py", "torchrun", 1, 2, ""),
        ("bash -c 'torchrun --nproc_per_node=2 train.py'", "torchrun", 1, 2, ""),
        ("uv run torchrun --nproc_per_node=2 train.py", "torchrun", 1, 2, ""),
        ("composer -n 8 train.py", "composer", None, 8, ""),
    ],
)
def test_launchers(tmp_path, line: str, program: str, nodes, processes, word: str) -> None:
    told = given(tmp_path, f"#!/bin/bash\n{line}\n")
    launch = told.launches[-1]
    assert (launch.program, launch.nodes, launch.processes, launch.processes_word) == (
        program,
        nodes,
        processes,
        word,
    )


def test_mpirun_hands_variables_on(tmp_path) -> None:
    told = given(tmp_path, "#!/bin/bash\nmpirun -np 2 -x NCCL_DEBUG=INFO -x PATH python t.py\n")
    assert scripted(told) == {"NCCL_DEBUG": "INFO"}


def test_docker_run(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/bin/bash
        docker run --rm -it --gpus '"device=0,3"' --shm-size=8g --ulimit memlock=-1 -m 64g -v $PWD:/w \\
          -e NCCL_DEBUG=INFO --env OMP_NUM_THREADS=4 pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime \\
          torchrun --nproc_per_node=2 train.py
        """,
    )
    container, launch = told.launches
    assert container.program == "docker run"
    assert (container.gpus, container.shm_bytes, container.memory_bytes) == (2, 8 * GIB, 64 * GIB)
    assert (container.pinned_limit_bytes, container.host_ipc) == (-1, False)
    assert (launch.program, launch.processes) == ("torchrun", 2)
    assert [one.value for one in told.images] == ["pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime"]
    assert (told.torch[0].version, told.torch[0].cuda, told.torch[0].wanted) == ("2.3.1", "12.1", True)
    assert scripted(told) == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4"}


def test_docker_run_with_the_hosts_shared_memory(tmp_path) -> None:
    told = given(tmp_path, "docker run --gpus all --ipc=host -d nvcr.io/nvidia/pytorch:24.05-py3 sleep 9\n")
    assert (told.launches[0].host_ipc, told.launches[0].gpus) == (True, None)


def test_installations_of_a_script(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/bin/bash
        module load gcc/12 cuda/12.4.1
        pip install torch==2.5.1 torchvision --index-url https://download.pytorch.org/whl/cu118
        """,
    )
    assert [one.value for one in told.toolkits] == ["12.4.1"]
    (build,) = told.torch
    assert (build.version, build.local, build.cuda, build.wanted) == ("2.5.1", "cu118", "11.8", True)


def test_conda_installs_a_build(tmp_path) -> None:
    told = given(
        tmp_path, "#!/bin/bash\nconda install -y pytorch==2.2.0 pytorch-cuda=12.1 -c pytorch -c nvidia\n"
    )
    assert (told.torch[0].version, told.torch[0].cuda) == ("2.2.0", "12.1")


SLURM = """
#!/bin/bash -l
#SBATCH --job-name=fsdp
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8      # all of them
#SBATCH --cpus-per-task 96
#SBATCH --mem=900G
#SBATCH --export=ALL,NCCL_DEBUG=WARN

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$head_node
export GPUS_PER_NODE=8

srun --cpu-bind=none torchrun \\
    --nnodes=$SLURM_NNODES \\
    --nproc_per_node=$GPUS_PER_NODE \\
    --rdzv_endpoint=$head_node:29500 \\
    train.py
"""


def test_a_slurm_script(tmp_path) -> None:
    told = given(tmp_path, SLURM, "job.sbatch")
    job, step, launch = told.launches
    assert (job.program, job.nodes, job.processes, job.gpus, job.memory_bytes) == (
        "sbatch",
        2,
        1,
        8,
        900 * GIB,
    )
    assert (step.program, step.nodes, step.processes, step.gpus) == ("srun", 2, 1, 8)
    assert (launch.program, launch.nodes, launch.processes) == ("torchrun", 2, 8)
    assert step.quote == launch.quote
    assert [one.value for one in told.expected_gpus] == ["h100"]
    assert told.variable("MASTER_ADDR").value is None
    assert [(one.name, one.value) for one in told.variables if one.scope == "job"] == [("NCCL_DEBUG", "WARN")]
    assert told.sources[0][1] == "Slurm script"


@pytest.mark.parametrize(
    ("options", "nodes", "processes", "gpus", "memory"),
    [
        ("--nodes=1 --ntasks=8 --gpus-per-node=8 --mem=0", 1, 8, 8, 0),
        ("-N2 -n16 --gpus=a100:16", 2, 8, 8, None),
        ("-N 1 --ntasks-per-node=4 --gpus-per-task=1 --mem-per-gpu=60G", 1, 4, 4, 240 * GIB),
        ("-N 1 -n 4 -c 8 --mem-per-cpu=4000", 1, 4, None, 4000 * 32 * 2**20),
        ("--nodes=1 --gres=gpu:4 --mem=200000", 1, None, 4, 200000 * 2**20),
        ("--nodes=2-4 --ntasks-per-node=8", None, 8, None, None),
        ("--gres=gpu:a100:2 --ntasks=1", None, 1, 2, None),
    ],
)
def test_shares_of_a_node(tmp_path, options: str, nodes, processes, gpus, memory) -> None:
    lines = "\n".join(f"#SBATCH {one}" for one in options.replace(" -", "\n-").split("\n"))
    told = given(tmp_path, f"#!/bin/bash\n{lines}\nsrun hostname\n")
    job = told.launches[0]
    assert (job.nodes, job.processes, job.gpus, job.memory_bytes) == (nodes, processes, gpus, memory)


def test_srun_without_tasks_starts_one_on_each_node(tmp_path) -> None:
    told = given(tmp_path, "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gpus-per-node=4\nsrun python train.py\n")
    assert [one.processes for one in told.launches] == [None, 1]


def test_commands_of_prompts_and_of_a_report(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        I start it like this, and it doesn't work:

            torchrun --nproc_per_node=4 train.py

        root@4d1f00c0ffee:/workspace# export NCCL_DEBUG=INFO
        root@4d1f00c0ffee:/workspace# nvidia-smi -L
        GPU 0: NVIDIA L4 (UUID: GPU-00000000-0000-0000-0000-000000000001)
        """,
    )
    assert [(one.program, one.processes) for one in told.launches] == [("torchrun", 4)]
    assert scripted(told) == {"NCCL_DEBUG": "INFO"}
    assert told.container.value == "Docker"
    assert told.cards[0].name == "NVIDIA L4"


@pytest.mark.parametrize(
    "text",
    [
        "C:\\train> set NCCL_DEBUG=INFO\n",
        'PS C:\\train> $env:NCCL_DEBUG = "INFO"\n',
        "%env NCCL_DEBUG=INFO\n",
        'set "NCCL_DEBUG=INFO"\n',
        "#!/bin/csh\nsetenv NCCL_DEBUG INFO\n",
        "#!/usr/bin/env tcsh\nsetenv NCCL_DEBUG 'INFO'\n",
        "#!/usr/bin/env fish\nset -gx NCCL_DEBUG INFO\n",
        "#!/usr/bin/fish\nset -x NCCL_DEBUG INFO\n",
    ],
)
def test_other_shells(tmp_path, text: str) -> None:
    assert scripted(given(tmp_path, text)) == {"NCCL_DEBUG": "INFO"}


def test_scontrol(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        JobId=48123 JobName=fsdp
           UserId=me(1000) GroupId=me(1000) MCS_label=N/A
           JobState=RUNNING Reason=None Dependency=(null)
           NumNodes=2 NumCPUs=192 NumTasks=16 CPUs/Task=12 ReqB:S:C:T=0:0:*:*
           ReqTRES=cpu=192,mem=2000G,node=2,billing=192,gres/gpu=16
           AllocTRES=cpu=192,mem=2000G,node=2,billing=192,gres/gpu=16,gres/gpu:a100=16
           TresPerNode=gres/gpu:a100:8
        """,
    )
    (job,) = told.launches
    assert (job.nodes, job.processes, job.gpus, job.memory_bytes) == (2, 8, 8, 1000 * GIB)
    assert [one.value for one in told.expected_gpus] == ["a100"]
    told = given(
        tmp_path,
        """
        NodeName=g17 Arch=x86_64 CoresPerSocket=64
           CPUAlloc=0 CPUEfctv=256 CPUTot=256 CPULoad=0.10
           Gres=gpu:a100:8(S:0-1)
           RealMemory=1031000 AllocMem=0 FreeMem=900000 Sockets=2 Boards=1
        """,
    )
    assert (told.host.vcpus.value, told.host.ram_bytes.value) == (256, 1031000 * 2**20)


def test_a_launcher_in_a_variable(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        #!/bin/bash
        #SBATCH --nodes=2
        #SBATCH --ntasks-per-node=1
        #SBATCH --gres=gpu:8
        MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
        GPUS=8
        LAUNCHER="python -u -m torch.distributed.run \\
            --nproc_per_node $GPUS --nnodes $SLURM_NNODES \\
            --rdzv_endpoint $MASTER_ADDR:6000 --rdzv_backend c10d"
        ARGS="train.py --lr 3e-4"
        srun --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank $SLURM_PROCID $ARGS"
        $LAUNCHER $ARGS
        """,
    )
    steps = [(one.program, one.nodes, one.processes) for one in told.launches]
    assert steps == [("sbatch", 2, 1), ("srun", 2, 1), ("torchrun", 2, 8), ("torchrun", 2, 8)]


def test_a_command_that_is_no_value(tmp_path) -> None:
    with pytest.raises(InputError):
        given(tmp_path, 'CUDA_VISIBLE_DEVICES="" pytest tests/test_a.py\n', "notes.txt")
    told = given(tmp_path, 'CUDA_VISIBLE_DEVICES=""\n', "notes.txt")
    assert told.variable("CUDA_VISIBLE_DEVICES").value == ""


def test_a_job_that_is_submitted_tells_nothing_of_itself(tmp_path) -> None:
    told = given(tmp_path, "#!/bin/bash\nexport NCCL_DEBUG=INFO\nsbatch job.sh\nsbatch other.sh\n")
    assert told.launches == ()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("N * 8", "16"),
        ("$N*(1+3)-1", "7"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("7 % 4", "3"),
        ("1 / 0", None),
        ("N ** 9", None),
        ("UNSET + 1", None),
        ("(" * 50 + "1", None),
        ("9" * 200, None),
    ],
)
def test_arithmetic(tmp_path, expression: str, value: str | None) -> None:
    told = given(tmp_path, f"#!/bin/bash\nN=2\nexport A=$(({expression}))\n")
    assert told.variable("A").value == value


def test_a_fenced_script_without_a_first_line(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        I run this:
        ```bash
        export NCCL_DEBUG=INFO
        LAUNCHER="torchrun --nproc_per_node=4"
        $LAUNCHER train.py
        ```
        and then
        ```console
        $ deepspeed --num_gpus=2 train.py
        ```
        """,
        "issue.md",
    )
    assert [(one.program, one.processes) for one in told.launches] == [("torchrun", 4), ("deepspeed", 2)]
    assert scripted(told) == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("if [ $D = 1 ]; then\n  N=4\nelse\n  N=8\nfi", None),
        ("if [ $D = 1 ]; then N=4; else N=8; fi", None),
        ("if [ $D = 1 ]; then\n  N=8\nelif [ $D = 2 ]; then\n  N=8\nelse\n  N=8\nfi", 8),
        ("N=8\nif [ $D = 1 ]; then\n  N=1\nfi", None),
        ("N=8\nif [ $D = 1 ]; then\n  M=1\nfi", 8),
        # The default of who sets nothing.
        ('if [ -z "$N" ]; then\n  N=8\nfi', 8),
        ("N=8\ncase $D in\n  a) N=1 ;;\n  b) N=2 ;;\nesac", None),
        ("if [ $D = 1 ]; then\n  if [ $E = 1 ]; then N=1; else N=2; fi\nelse\n  N=2\nfi", None),
    ],
)
def test_branches(tmp_path, text: str, gpus: int | None) -> None:
    told = given(tmp_path, f"#!/bin/bash\n{text}\ntorchrun --nproc_per_node=$N train.py\n", "run.sh")
    assert [one.processes for one in told.launches if one.program == "torchrun"] == [gpus]


def test_visible_devices_of_one_branch(tmp_path) -> None:
    """Not to set it means all GPUs."""
    text = "#!/bin/bash\nif [ $D = 1 ]; then\n  export CUDA_VISIBLE_DEVICES=0\nfi\ntorchrun --nproc_per_node=8 t.py\n"
    told = given(tmp_path, text, "run.sh")
    assert told.variable("CUDA_VISIBLE_DEVICES").value is None
