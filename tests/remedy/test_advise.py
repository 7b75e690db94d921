"""Which step comes first, what comes next, and what is left out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, Finding, Incident
from oomph.diagnose.rules import all_rules
from oomph.memory.ledger import Ledger
from oomph.phases import Phase
from oomph.remedy.actions import action_for, all_actions
from oomph.remedy.advise import NOT_THE_BATCH, advise
from tests.remedy.cases import CAPPED, FRAGMENTED, NEIGHBOUR, OOM, case_of, finding_of

TRAINING = ("micro-batch", "checkpointing", "shorter-sequence")


def first_of(case: Case, finding: Finding) -> str:
    return advise(case, [finding]).first.code


def test_every_action_that_a_rule_names_exists() -> None:
    named = {code for rule in all_rules() for code in rule.actions}
    assert named <= set(all_actions())


def test_the_batch_comes_before_checkpointing_and_the_length_comes_last() -> None:
    finding = finding_of("activations", "shorter-sequence", "checkpointing", "micro-batch")
    advice = advise(case_of(facts={"batch_size": 8, "sequence_length": 4096}), [finding])
    assert [advice.first.code, *(step.code for step in advice.then)] == list(TRAINING)


def test_with_a_batch_of_one_checkpointing_is_first() -> None:
    case = case_of(facts={"batch_size": 1, "sequence_length": 4096})
    assert first_of(case, finding_of("activations", *TRAINING)) == "checkpointing"


def test_with_a_batch_of_one_and_checkpointing_on_the_length_is_first() -> None:
    case = case_of(facts={"batch_size": 1, "checkpointing": "true", "sequence_length": 4096})
    assert first_of(case, finding_of("activations", *TRAINING)) == "shorter-sequence"


def test_a_recompute_shows_that_checkpointing_is_on() -> None:
    case = case_of(phase=Phase.BACKWARD, recompute=True, facts={"batch_size": 1})
    assert first_of(case, finding_of("activations", *TRAINING)) == "shorter-sequence"


def test_expandable_segments_are_not_proposed_twice() -> None:
    finding = finding_of("fragmentation", "expandable-segments", "fixed-shapes")
    assert first_of(case_of(FRAGMENTED), finding) == "expandable-segments"
    on = case_of(FRAGMENTED, facts={"alloc_conf": "expandable_segments:True"})
    advice = advise(on, [finding])
    assert advice.first.code == "fixed-shapes"
    assert any("on already" in sentence for sentence in advice.avoid)


@pytest.mark.parametrize("platform", ["wsl2", "windows"])
def test_expandable_segments_are_not_proposed_where_they_do_not_work(platform: str) -> None:
    finding = finding_of("fragmentation", "expandable-segments", "fixed-shapes")
    assert first_of(case_of(FRAGMENTED, facts={"platform": platform}), finding) == "fixed-shapes"
    jetson = case_of(FRAGMENTED, facts={"gpu_name": "NVIDIA Jetson AGX Orin"})
    assert first_of(jetson, finding) == "fixed-shapes"


#: A setting of the log -> words of the step that would repeat it.
ALREADY = {
    ("batch_size", "1"): "micro-batch",
    ("checkpointing", "true"): "checkpointing",
    ("alloc_conf", "expandable_segments:True"): "expandable-segments",
    ("dtype", "bf16"): "lower-dtype",
    ("lora_rank", "16"): "lora",
    ("optimizer", "adamw_bnb_8bit"): "eight-bit-optimizer",
    ("eval_batch_size", "1"): "eval-batch",
    ("world_size", "1"): "shard-more",
}


def test_no_step_proposes_what_the_log_shows_as_set() -> None:
    """Every action alone and in front of a fallback, with each setting and each pair of settings on."""
    fallback = "collect-context"
    for size in (1, 2):
        for settings in itertools.combinations(ALREADY.items(), size):
            facts = dict(key for key, _ in settings)
            for phase in (Phase.FORWARD, Phase.LOAD, Phase.OPTIMIZER, Phase.EVAL, Phase.UNKNOWN):
                case = case_of(phase=phase, facts=facts)
                for _, code in settings:
                    action = action_for(code)
                    assert action is not None
                    assert not action.applies(case), (code, facts)
                    finding = replace(finding_of("activations", code, fallback), code="")
                    advice = advise(case, [finding])
                    assert code not in (advice.first.code, *(step.code for step in advice.then))


@pytest.mark.parametrize("cause", sorted(NOT_THE_BATCH))
def test_the_batch_is_no_step_where_it_changes_nothing(cause: str) -> None:
    """Not even when a rule lists it, or when a second cause of the same certainty would."""
    text = {"other_process": NEIGHBOUR, "cap_or_driver_limit": CAPPED}.get(cause, OOM)
    for phase in Phase:
        case = case_of(text, phase=phase, facts={"batch_size": 8})
        rule_actions = finding_of(cause).actions
        findings = [
            finding_of(cause, *rule_actions, "micro-batch"),
            finding_of("activations", *TRAINING, score=2.4),
        ]
        advice = advise(case, findings)
        steps = (advice.first, *advice.then)
        assert "micro-batch" not in [step.code for step in steps]
        if cause == "eval_generation":
            continue
        said = " ".join(f"{step.title} {step.text} {step.paste}" for step in (advice.first,)).lower()
        assert "batch" not in said.replace("dataloader", ""), said


def test_a_second_cause_that_scores_as_high_adds_its_first_action() -> None:
    top = finding_of("fragmentation", "expandable-segments", score=2.6)
    close = finding_of("activations", *TRAINING, score=2.5)
    far = finding_of("activations", *TRAINING, score=2.1)
    case = case_of(FRAGMENTED, facts={"batch_size": 8})
    assert "micro-batch" in [step.code for step in advise(case, [top, close]).then]
    assert "micro-batch" not in [step.code for step in advise(case, [top, far]).then]


def test_later_steps_do_not_repeat_how_much_is_missing() -> None:
    advice = advise(case_of(facts={"batch_size": 8}), [finding_of("activations", *TRAINING)])
    assert "77.56 MiB has to go" in advice.first.text
    assert advice.then
    assert not any("has to go" in step.text for step in advice.then)


def test_nothing_is_collected_when_the_evidence_is_enough() -> None:
    advice = advise(case_of(facts={"batch_size": 8}), [finding_of("activations", *TRAINING)])
    assert advice.collect == ()


def test_a_mere_possibility_asks_for_a_snapshot() -> None:
    finding = finding_of("activations", *TRAINING, certainty=Certainty.POSSIBLE)
    advice = advise(case_of(facts={"batch_size": 8}), [finding])
    assert [step.code for step in advice.collect] == ["collect-snapshot"]
    assert "_record_memory_history" in advice.collect[0].paste
    assert "_dump_snapshot" in advice.collect[0].paste


def test_an_unknown_phase_asks_for_the_logs_of_every_rank() -> None:
    advice = advise(case_of(phase=Phase.UNKNOWN), [finding_of("activations", *TRAINING)])
    assert "collect-context" in [step.code for step in advice.collect]
    assert "head -n 50" in advice.collect[0].paste
    assert "tail -n 200" in advice.collect[0].paste


def test_missing_numbers_ask_for_what_is_on_the_card() -> None:
    case = case_of("RuntimeError: CUDA error: out of memory")
    finding = finding_of("disguised_library_error", "check-free-memory")
    advice = advise(case, [finding])
    assert [step.code for step in advice.collect] == ["collect-smi"]
    assert "--query-compute-apps" in advice.collect[0].paste


def test_a_bare_kill_asks_who_sent_it_and_does_not_ask_twice() -> None:
    case = case_of(
        "ERROR: failed (exitcode: -9) local_rank: 0 (pid: 412) of binary: python", phase=Phase.UNKNOWN
    )
    finding = finding_of("host_ram", "host-ram", "collect-kernel-log", certainty=Certainty.POSSIBLE)
    advice = advise(case, [finding])
    assert "dmesg" in advice.first.paste
    assert "sacct" in advice.first.paste
    assert "collect-kernel-log" not in [step.code for step in advice.collect]


def test_a_job_that_survived_is_told_how_to_keep_it_from_coming_back() -> None:
    case = case_of(facts={"batch_size": 8})
    caught = Incident(
        case.failure, "caught", None, case.phase_verdict, Ledger(), why_status="25 more training steps follow"
    )
    finding = finding_of("activations", *TRAINING)
    assert advise(case, [finding], [caught]).first.text.startswith("The job survived")
    fatal = replace(caught, status="fatal")
    assert "survived" not in advise(case, [finding], [caught, fatal]).first.text
    unseen = replace(caught, why_status="it was caught; the input does not show what came after")
    assert "survived" not in advise(case, [finding], [unseen]).first.text


def test_without_an_action_that_applies_there_is_still_something_to_do() -> None:
    case = case_of(facts={"batch_size": 1})
    finding = replace(finding_of("activations", "micro-batch"), code="")
    assert advise(case, [finding]).first.code == "collect-context"
    assert advise(case, []).first.code == "collect-context"


@pytest.mark.parametrize("code", sorted(all_actions()))
@pytest.mark.parametrize("text", [OOM, NEIGHBOUR, CAPPED, "RuntimeError: CUDA error: out of memory"])
def test_every_action_says_something_in_every_phase(code: str, text: str) -> None:
    action = all_actions()[code]
    for phase in Phase:
        for facts in ({}, {"batch_size": 4, "world_size": 8, "zero_stage": 2, "trainable_params": 10**9}):
            case = case_of(text, phase=phase, facts=facts)
            step = action.step(case, finding_of("activations", code))
            assert step.code == code
            assert step.title
            assert step.text.endswith((".", "?"))
            assert "None" not in step.text + step.title
            assert step.frees_bytes is None or step.frees_bytes > 0
            for outcome, follows in step.outcomes:
                assert outcome.startswith("If ")
                assert follows
