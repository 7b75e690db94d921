"""What is said of a plan, in sentences and rows."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from oomph.job.model import (
    Checkpointing,
    Hardware,
    Job,
    Lora,
    Method,
    Optimizer,
    Parallel,
    Precision,
    Quantization,
)
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.model import Host, Outside, Term
from oomph.report.plan import job_words, words
from tests.report.plan.plans import ADAPTERS, GIB, JOB, MIB, TERMS, peak, plan, played, rank, refused


def test_what_fits_says_the_upper_end_and_the_room() -> None:
    assert words.headline(plan()) == (
        "It fits: it needs 36.00 GiB in backward, at most 39.00 GiB, of 60.00 GiB that PyTorch can have"
    )
    assert words.exit_code(plan()) == 0


def test_what_may_not_fit_names_phase_and_place() -> None:
    """The upper end, 37 GiB, is over the 36."""
    unsure = plan(None, 36, Phase.BACKWARD)
    assert words.headline(unsure) == (
        "It may not fit: it needs 36.00 GiB in backward (the loss), at most 37.00 GiB, of 36.00 GiB that PyTorch can "
        "have"
    )
    assert words.exit_code(unsure) == 1


def test_what_only_fragments_keep_from_fitting_says_so() -> None:
    """37 GiB at the most would fit into the 38."""
    told = words.headline(plan(None, 38, Phase.BACKWARD))
    assert told.endswith("of 38.00 GiB that PyTorch can have, and fragments of its cache are on top of that")


def test_what_does_not_fit_says_by_how_much() -> None:
    """Forward needs 29 GiB at the least, 5 more than the 24."""
    failing = plan(False, 24, Phase.FORWARD)
    assert words.headline(failing) == (
        "It does not fit: memory runs out in forward, which needs 30.00 GiB, at least 29.00 GiB, of 24.00 GiB that "
        "PyTorch can have: 5.00 GiB short at the least. The most is 36.00 GiB in backward"
    )
    assert words.exit_code(failing) == 1


def test_without_a_capacity_there_is_no_verdict() -> None:
    unknown = plan(None, None)
    assert words.headline(unknown) == (
        "It needs 36.00 GiB in backward, at most 39.00 GiB; without --gpu or --capacity nothing says whether that fits"
    )
    assert words.exit_code(unknown) == 0


def test_what_is_given_back_before_a_failure_does_not_contradict_the_verdict() -> None:
    """37 GiB allocated at the most fit into 38; the 39 reserved need not be had."""
    told = words.headline(plan(True, 38))
    assert told.startswith("It fits: 36.00 GiB in backward, at most 37.00 GiB of 38.00 GiB")
    assert "gives back" in told
    assert words.phase_rows(plan(True, 38), rank())[-1][-1] == "the most"


def test_cached_memory_does_not_make_a_later_phase_the_highest() -> None:
    """The step allocates 12 GiB, and a little more than before is reserved by then: 36 GiB are needed, in backward."""
    before = rank()
    phases = {**before.phases, Phase.OPTIMIZER: peak(Phase.OPTIMIZER, 12, 12, 13, (37, 36, 40))}
    after = dataclasses.replace(before, phases=phases)
    assert words.headline(plan(ranks=(after,))) == (
        "It fits: it needs 36.00 GiB in backward, at most 40.00 GiB, of 60.00 GiB that PyTorch can have"
    )
    assert [row[-1] for row in words.phase_rows(plan(ranks=(after,)), after)[1:]] == ["", "", "the most", ""]
    assert words.needs(after) == (35 * GIB, 40 * GIB)


def test_what_was_not_understood_comes_before_what_was_filled_in() -> None:
    told = [
        "Micro-batch of 1: nothing says it.",
        "Gradients are fp32.",
        "Not understood, and it may matter: galore.",
    ]
    assert words.weightiest_first(told) == [told[2], told[0], told[1]]


def test_a_refused_job_says_so_in_one_sentence() -> None:
    told = words.headline(refused("unsupported: fp8 of TransformerEngine", "unsupported: ring attention"))
    assert told == (
        "unsupported: fp8 of TransformerEngine; ring attention. oomph plan does not model that; oomph trace runs the "
        "real code without a GPU"
    )
    assert words.exit_code(refused("x")) == 2
    own = words.headline(refused("a family; `oomph trace` runs the script itself."))
    assert own == "unsupported: a family; `oomph trace` runs the script itself"


def test_several_kinds_of_ranks_are_named() -> None:
    both = (rank(ranks="ranks 0-3"), rank(ranks="ranks 4-7", first=4, played=False))
    told = words.headline(plan(ranks=both))
    assert "in backward on ranks 0-3" in told
    rows = words.rank_rows(plan(None, 36, ranks=both))
    assert rows[1] == ("ranks 0-3", "36.00 GiB", "35.00 to 39.00 GiB", "backward", "may not fit")
    assert rows[2] == ("ranks 4-7", "36.00 GiB", "35.00 to 37.00 GiB", "backward", "may not fit")
    assert words.rank_rows(plan(ranks=both))[1][-1] == "fits"


def test_the_table_of_phases() -> None:
    assert words.phase_rows(plan(None, 30, Phase.FORWARD), rank()) == [
        ("phase", "allocated", "between", "reserved", ""),
        ("load", "4.00 GiB", "", "4.0 GiB", ""),
        ("forward", "30.00 GiB", "29.0 to 31.0 GiB", "30.0 to 33.0 GiB", "may not fit"),
        ("backward", "36.00 GiB", "35.0 to 37.0 GiB", "36.0 to 39.0 GiB", "does not fit"),
    ]
    assert words.phase_rows(plan(), rank(played=False))[0] == ("phase", "allocated", "between", "")


def test_the_terms_are_summed_by_category_and_name() -> None:
    backward = rank().phases[Phase.BACKWARD]
    assert words.category_rows(backward) == [
        ("category", "size", "share"),
        ("parameters", "4.00 GiB", "11 %"),  # 4 / 36
        ("optimizer state", "8.00 GiB", "22 %"),  # 8 / 36
        ("activations", "23.00 GiB", "64 %"),  # 23 / 36
        ("communication", "1024.00 MiB", "3 %"),  # 1 / 36
        ("in all", "36.00 GiB", ""),
    ]
    assert words.term_rows(backward, 2)[1:] == [
        ("20.00 GiB", "56 %", "activations", "saved activations of 32 blocks"),
        ("8.00 GiB", "22 %", "optimizer state", "AdamW's moments"),
        ("8.00 GiB", "22 %", "", "3 smaller terms"),  # 4 + 3 + 1
    ]
    assert words.term_rows(backward, pages=True)[1][3] == "block"
    casts = dataclasses.replace(backward, terms=(Term("aten._to_copy", Category.ACTIVATIONS, GIB),))
    assert words.term_rows(casts)[1][-1] == "results of to_copy"
    grads = [Term(f"layer.{n}.weight", Category.GRADIENTS, GIB) for n in range(3)]
    both = dataclasses.replace(backward, terms=tuple(grads))
    assert words.term_rows(both, 5)[1:] == [("3.00 GiB", "100 %", "gradients", "gradients")]
    assert len(words.term_rows(both)) == 4
    twice = words.merged((*TERMS, Term("logits", Category.ACTIVATIONS, GIB)))
    assert [term.bytes for term in twice if term.name == "logits"] == [4 * GIB]


def test_a_peak_without_terms_has_no_tables() -> None:
    load = rank().phases[Phase.LOAD]
    assert words.category_rows(load) == []
    assert words.term_rows(load) == []


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 100, "0 %"), (1, 1000, "< 1 %"), (1, 100, "1 %"), (1, 1, "100 %"), (1, 0, "0 %")],
)
def test_shares(part, whole, text) -> None:
    assert words.share(part, whole) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (36 * GIB, 39 * GIB, "36.00 to 39.00 GiB"),
        (900 * MIB, 2 * GIB, "900.00 MiB to 2.00 GiB"),
        (5 * GIB, 5 * GIB + 1000, "5.00 GiB"),
        (0, 0, "0 bytes"),
    ],
)
def test_intervals(low, high, text) -> None:
    assert words.interval(low, high) == text


def test_what_is_needed_beside_pytorch() -> None:
    told = words.outside_words(plan(), rank())
    assert told[0] == (
        "600.00 MiB to 3.00 GiB of the card on top of these numbers: CUDA context 300.00 to 1024.00 MiB; NCCL 300.00 "
        "MiB to 2.00 GiB."
    )
    assert told[1] == "The 60.00 GiB that PyTorch can have are what the most of that leaves."
    nothing = dataclasses.replace(rank(), outside=Outside(0, 0))
    assert words.outside_words(plan(), nothing) == []


def test_a_capacity_that_was_given_is_pytorchs_alone() -> None:
    """60 GiB are what NCCL's 2 leave of 62; where 62 were given for PyTorch, they are all there."""
    made = plan()
    assert words.room_of(made) == 60 * GIB
    given = replace(JOB, hardware=replace(JOB.hardware, capacity_bytes=62 * GIB))
    assert words.room_of(dataclasses.replace(made, job=given)) == 62 * GIB
    assert len(words.outside_words(dataclasses.replace(made, job=given), rank())) == 1
    assert words.room_of(plan(None, None)) is None


def test_ram_is_compared_with_what_the_machine_has() -> None:
    told = words.host_words(plan())
    assert told[0] == (
        "120.00 GiB while loading, 10.00 GiB while training (eight copies of the weights 120.00 GiB)."
    )
    assert told[1] == "a2-highgpu-8g has 680.00 GiB, which is enough."
    much = words.host_words(plan(host=Host(700 * GIB, 0)))
    assert much[1] == "a2-highgpu-8g has 680.00 GiB, 20.00 GiB too little."
    assert words.host_words(plan(host=None)) == []
    assert words.host_words(plan(host=Host(GIB, 0)))[0] == "1024.00 MiB while loading."


def test_the_allocators_play_is_told_where_it_failed() -> None:
    assert words.allocator_words(rank()) == ""
    assert words.allocator_words(rank(replay=played(0))) == ""
    assert "in 3 of 8 orders" in words.allocator_words(rank(replay=played(3)))
    assert "it runs out in backward in every order of addresses" in words.allocator_words(
        rank(replay=played(8))
    )


def test_a_job_in_words() -> None:
    assert words.context(plan()) == (
        "acme/decoder-8b (8,030,261,248 parameters) on 8 x NVIDIA A100-SXM4-40GB (a2-highgpu-8g): all weights train; "
        "FSDP2 over 8, resharded after forward; fp32 weights, bf16 autocast; AdamW (foreach); batch 2 x 8,192 tokens, "
        "4 forwards a step; no checkpointing; attention sdpa; transformers 5.1, torch 2.9."
    )
    part = dataclasses.replace(plan(), trainable=80_302_612)
    assert "of which 80,302,612 train (1.00 %)" in words.context(part)


def test_words_of_a_jobs_parts() -> None:
    assert job_words.method_words(Job(method=ADAPTERS)) == "LoRA of rank 16 on q_proj, v_proj"
    quantised = Method("qlora", Lora(dora=True), Quantization(kind="nf4", double=True))
    assert job_words.method_words(Job(method=quantised)) == (
        "DoRA of rank 8 on q_proj, v_proj on nf4 weights, quantised twice"
    )
    assert job_words.method_words(Job(method=Method(frozen=("vision",)))) == "some weights are frozen"
    assert job_words.precision_words(Precision()) == "fp32 weights"
    assert job_words.precision_words(Precision(compute="bf16")) == "fp32 weights, bf16 products"
    assert (
        job_words.precision_words(Precision("bf16", "bf16", master=True))
        == "bf16 weights with a copy in fp32"
    )
    assert job_words.optimizer_words(Optimizer(impl="bnb_paged", state="int8")) == (
        "AdamW (bitsandbytes, paged, int8 states)"
    )
    assert job_words.optimizer_words(Optimizer(offload="cpu")) == "AdamW (foreach, states on the host)"
    split = Parallel(tensor=4, pipeline=2, data=2, sequence_parallel=True, offload_parameters=True)
    assert job_words.parallel_words(split) == (
        "2 data ranks, tensor parallel over 4, pipeline parallel over 2, sequence parallel, parameters on the host"
    )
    assert job_words.place_words(Job()) == "a GPU that is not named"
    assert job_words.place_words(Job(hardware=Hardware(gpus=4))) == "4 x GPU"
    assert job_words.place_words(Job(hardware=Hardware(gpu="nothing"))) == "nothing"
    assert "one block of 3 checkpointed" in job_words.training_words(
        Job(checkpointing=Checkpointing(mode="every_n", every=3))
    )


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_its_words(phase) -> None:
    assert words.phase_of(phase)


def test_every_value_of_a_job_has_its_words() -> None:
    from typing import get_args

    from oomph.job.model import CheckpointMode, OptimizerImpl, Strategy

    for strategy in get_args(Strategy):
        assert job_words.training_words(replace(JOB, parallel=Parallel(strategy=strategy, data=8)))
    for impl in get_args(OptimizerImpl):
        assert job_words.optimizer_words(Optimizer(impl=impl))
    for mode in get_args(CheckpointMode):
        assert job_words.training_words(replace(JOB, checkpointing=Checkpointing(mode=mode)))
