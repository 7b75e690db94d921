"""What `--steps N` means, and what is to be said when fewer were done.

The recorder counts optimizer steps: one step of one training loop, however many optimizers take part and however many
backward passes were accumulated for it. After the N-th it raises TraceEnd, which is no `Exception`: it passes through
`except Exception` and runs `finally` blocks, so that a loop of the script's own ends right after the step, with all
that is alive then. Trainers that have a number of steps of their own (transformers, Lightning) are given this one by
oomph.tracing.libraries, so that what they do after the last step is traced too.
"""

from __future__ import annotations

from oomph.tracing.child.request import Ending


def sentence(ending: Ending, done: int, wanted: int | None) -> str:
    """What has to be said about the number of steps; empty where all is as asked."""
    if ending not in (Ending.FINISHED, Ending.EXITED):
        return ""
    if done == 0:
        return "No optimizer step was taken: what is said holds for what ran, which may not be training."
    if wanted is not None and done < wanted:
        return f"The script ended after {_steps(done)}, before the {wanted} that were asked for."
    return ""


def _steps(count: int) -> str:
    return "1 optimizer step" if count == 1 else f"{count} optimizer steps"
