"""An optimizer in backward, composed: its states are there after the first step, its gradients never together."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.job.change import with_values
from oomph.job.model import Batch, Framework, Hardware, Job, Optimizer, Precision
from oomph.job.names import model
from oomph.phases import Phase
from oomph.predict.plan import plan

#: Two layers of Llama 3.1 8B, as counted in its config.json.
LAYER = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096
WEIGHTS = 2 * LAYER + 2 * 128256 * 4096 + 4096
JOB: Job = with_values(
    Job(
        model=model("meta-llama/Llama-3.1-8B"),
        precision=Precision(weights="bf16", compute="bf16"),
        batch=Batch(micro=1, sequence=256),
        framework=Framework(name="transformers"),
        hardware=Hardware(gpu="a100-80gb"),
        optimizer=Optimizer(impl="in_backward"),
    ),
    {"model.config.num_hidden_layers": 2},
)


def test_states_stay_and_gradients_go():
    """2 bytes of weights and 4 of moments per weight between steps; with gradients at the step, 2 more (and foreach's
    set of 2 more in the step)."""
    inside = plan(JOB, replay=False).worst
    after = plan(replace(JOB, optimizer=Optimizer()), replay=False).worst
    step = Phase.OPTIMIZER
    # Beside them two workspaces of cuBLAS (8.125 MiB each before Hopper), one for each thread that multiplies.
    rest = inside.phases[step].allocated_bytes - 6 * WEIGHTS - 2 * 8_519_680
    assert rest < 0.001 * WEIGHTS
    assert inside.phases[step].allocated_bytes >= 6 * WEIGHTS
    difference = after.phases[step].allocated_bytes - inside.phases[step].allocated_bytes
    assert abs(difference - 4 * WEIGHTS) < 0.01 * WEIGHTS
