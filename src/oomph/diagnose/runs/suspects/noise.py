"""What differs from run to run whatever happens."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument


class Noise(Kind):
    """Names, places, dates, hyperparameters that are numbers only."""

    name = "noise"
    order = 5
    keys = (
        argument("output_dir", "logging_dir", "run_name", "hub_\\w+", "report_to", "push_to_hub", "learning_rate", "lr",
                 "lr_scheduler\\w*", "weight_decay", "warmup\\w*", "adam_beta\\d", "adam_epsilon", "max_grad_norm",
                 "num_train_epochs", "epochs", "max_steps", "steps", "logging\\w*", "log_\\w+",
                 "disable_tqdm", "save_dir",
                 "resume_from_checkpoint", "local_rank", "overwrite_output_dir", "project", "project_name", "wandb\\w*",
                 "experiment\\w*", "greater_is_better", "metric_for_best_model", "num_epochs", "clip_grad\\w*", "tags",
                 "trackio\\w*", "remove_unused_columns", "skip_memory_metrics", "full_determinism", "gamma", "verbose"),
        r"environment\.(?:RANK|LOCAL_RANK|GROUP_RANK|NODE_RANK|SLURM_.*|CONDA_DEFAULT_ENV|PYTHONHASHSEED|OOMPH_.*)",
        r"environment\.(?:TORCHELASTIC_.*|HF_HOME|HF_HUB_CACHE|HF_DATASETS_CACHE|HF_HUB_\w+|TORCH_HOME)",
        r"environment\.(?:NVIDIA_(?:DRIVER_CAPABILITIES|REQUIRE_CUDA|PRODUCT_NAME)|CUDA_VERSION|NCCL_VERSION|NV_.*)",
        r"environment\.(?:NCCL_DEBUG\w*|TORCH_DISTRIBUTED_DEBUG|TORCH_CPP_LOG_LEVEL|TORCH_SHOW_\w+)",
        r"machine\.host", r"host", r"git\.branch", r"versions\.oomph", r"oomph", r"tag\..+", r"name", r"seconds",
        r"data(?:\..+)?\.(?:id|class)", r"note\..+", r"outcomes\..+", r"attempts", r"exit_code",
        r"signal", r"failed\..+", r"ranks\.missing", r"growth\.steady",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Nothing of it takes GPU memory."""
        del change, situation
        return Judged("it takes no GPU memory", Suspicion.HARMLESS)


class Seed(Kind):
    """Seeds."""

    name = "seed"
    order = 6
    keys = (argument("seed", "random_seed", "data_seed"), r"seed")

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Another order of the data."""
        del change, situation
        return Judged(
            "with another seed the longest samples come at another step, or together; padded batches differ",
            Suspicion.UNLIKELY,
            phases=("forward", "backward"),
            weight=2.0,
        )


class CommandLine(Kind):
    """The command as it was typed."""

    name = "command"
    order = 6
    keys = (r"command(?:\.typed)?", r"arguments\.\d+")

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Its options are among the arguments."""
        del change
        known = any(key.startswith("arguments.") for key in situation.after.values)
        return Judged(
            "what it says stands among the arguments" if known else "its options may change anything",
            Suspicion.HARMLESS if known else Suspicion.POSSIBLE,
            weight=3.0,
        )


class Other(Kind):
    """What nobody here knows."""

    name = "other"
    order = 1000
    keys = (r".*",)

    def wants(self, key: str) -> bool:
        """Everything."""
        del key
        return True

    def judge(self, change: Change, situation: Situation) -> Judged:
        """An argument may do anything."""
        del change, situation
        return Judged("what it does to memory is not known here", Suspicion.POSSIBLE, weight=1.0)
