"""A checkpoint that is loaded onto the device."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.units import format_bytes

_LOADING = re.compile(
    r"serialization\.py|_cuda_deserialize|restore_location|load_state_dict|_load_from_checkpoint|"
    r"_load_optimizer_and_scheduler|load_checkpoint|torch\.load\(|_weights_only_unpickler|load_optimizer|"
    r"restore(?:_\w+)?\b|resume(?:_\w+)?\b"
)
_ONTO_GPU = re.compile(r"map_location\s*=\s*['\"]?(?:cuda|hip|xpu|torch\.device\(['\"]cuda)")
_PRETRAINED = re.compile(
    r"from_pretrained|_load_pretrained_model|_load_state_dict_into_meta_model|dispatch_model"
)


class ResumeCheckpoint(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM205"
    cause = "resume_checkpoint"
    name = "a-checkpoint-is-loaded-onto-the-gpu"
    means = (
        "torch.load without map_location puts every tensor back on the device it was saved from, beside the model and "
        "the optimizer that are there already; in a job with several ranks all of them may load to cuda:0. If the "
        "loaded dict stays referenced, its memory stays through training."
    )
    decisive_evidence = (
        "Frames of torch.load or load_state_dict; or a first step right after the log says that it resumes."
    )
    first_action = 'torch.load(..., map_location="cpu"), load_state_dict, then delete the loaded object.'
    verify = "memory_allocated() after resuming equals that of a fresh start after its first step."
    wrong_advice = "The batch size: no batch has been seen yet."
    actions = ("map-location-cpu", "drop-checkpoint-dict")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM:
            return None
        if case.phase is Phase.LOAD:
            frame = case.frame_matching(_LOADING)
            if frame is None or case.frame_matching(_PRETRAINED) is not None:
                return None
            asked = f" (asking for {format_bytes(case.request_bytes)})" if case.request_bytes else ""
            return Match(
                Certainty.LIKELY,
                f"A checkpoint is being loaded onto the GPU{asked}: {frame.function} in {_short(frame.file)}.",
                weight=0.97,
            )
        return self._kept(case)

    def _kept(self, case: Case) -> Match | None:
        resumed = case.fact("resume")
        if resumed is None or case.phase not in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
            return None
        if resumed.position.document != case.group.start.document or resumed.position > case.group.start:
            return None
        steps = [
            fact
            for fact in case.evidence.facts_named("progress")
            if resumed.position < fact.position <= case.group.start
        ]
        if len(steps) > 2:
            return None
        onto = case.text_before(_ONTO_GPU)
        if onto is not None:
            return Match(
                Certainty.LIKELY,
                "It is the first step after a resume, and the checkpoint was loaded onto the GPU "
                "(map_location): if the "
                "loaded object is still referenced, it stands beside the model.",
                weight=0.8,
                evidence=(onto, resumed.quote, case.failure.quote),
                actions=("drop-checkpoint-dict", "map-location-cpu"),
            )
        return Match(
            Certainty.POSSIBLE,
            "It is the first step after a resume: the loaded checkpoint may still be on the GPU beside the model.",
            weight=0.95,
            evidence=(resumed.quote, case.failure.quote),
            actions=("drop-checkpoint-dict", "map-location-cpu"),
        )


def _short(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
