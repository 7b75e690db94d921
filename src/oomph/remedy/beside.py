"""A diagnosis with its advice, held against a plan of the job where the log shows it or it was given.

What plans is loaded when a job has been found: most logs name none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Diagnosis
from oomph.evidence.model import Kind
from oomph.remedy.advise import advise

if TYPE_CHECKING:
    from oomph.remedy.log_given import Given

#: Failures of which a plan says something: a GPU's memory that PyTorch's allocator, or CUDA, did not have.
_DEVICE = (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE)
#: Configurations and commands stand at the start.
_LINES, _CHARACTERS = 5_000, 10_000
#: Where a configuration or a command may say which model, though no line names it.
_MODEL = re.compile(
    r"\b(?:num_(?:hidden_)?layers|n_layer|flavor|_component_)\b|\b(?:base_)?model(?:_name(?:_or_path)?)?['\"]?\s?[=:]|"
    r"--model[\w-]{0,40}[= ]|[a-z]Config ?[({]|\b(?:torchrun|accelerate launch|deepspeed|tune run) "
)


def with_advice(case: Case, diagnosis: Diagnosis, given: Given | None = None) -> Diagnosis:
    """The diagnosis with its advice. Where a job was given that cannot be used, a note says why."""
    if given is None and not _names_a_job(case):
        return replace(diagnosis, advice=advise(case, diagnosis.findings, diagnosis.incidents))
    why = "The failure is not one of the GPU's memory."
    if case.kind in _DEVICE:
        from oomph.remedy.log_job import job_of

        found = job_of(case, given)
        if not isinstance(found, str):
            from oomph.remedy.predicted import beside

            planned = beside(case, found)
            if not isinstance(planned, str):
                advice = advise(case, diagnosis.findings, diagnosis.incidents, planned)
                return replace(diagnosis, advice=advice, plan=planned.planned)
            found = planned
        why = found
    notes = diagnosis.notes if given is None else (*diagnosis.notes, f"Nothing is predicted. {why}")
    advice = advise(case, diagnosis.findings, diagnosis.incidents)
    return replace(diagnosis, advice=advice, notes=notes, no_plan=why)


def _names_a_job(case: Case) -> bool:
    """Whether the log says a batch size and something of the model, and the failure is one that a plan knows. Without
    a batch size no job is made of a log."""
    if case.kind not in _DEVICE or not case.evidence.facts_named("batch_size"):
        return False
    if case.evidence.facts_named("model"):
        return True
    documents = case.evidence.documents
    own = documents[case.group.start.document]
    return any(
        _MODEL.search(line.text[:_CHARACTERS])
        for document in (own, *documents[:2])
        for line in document.lines[:_LINES]
    )
