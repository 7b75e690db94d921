"""Diagnoses built by hand: what `diagnose` could say about jobs whose logs never existed.

The numbers of each message are written as the message prints them; the rest follows by the ledger's identities.
"""

from __future__ import annotations

from oomph.diagnose.model import (
    Advice,
    Certainty,
    Diagnosis,
    Finding,
    Incident,
    Outcome,
    PhaseVerdict,
    RankVerdict,
    RuledOut,
    Step,
)
from oomph.evidence.model import (
    Document,
    Evidence,
    Fact,
    Failure,
    Frame,
    Kind,
    Line,
    Position,
    ProcessUse,
    Quote,
)
from oomph.memory.ledger import Ledger
from oomph.phases import Phase
from oomph.units import Amount, parse_size

LOG = "logs/train.log"


def amount(text: str) -> Amount:
    """A size as a message prints it."""
    size = parse_size(text)
    assert size is not None
    return size


def ledger(**printed: str) -> Ledger:
    """The ledger of printed sizes, by field name without `_bytes`."""
    return Ledger.build({f"{name}_bytes": amount(text) for name, text in printed.items()})


def document(source: str, last_line: int, **more) -> Document:
    """An input of which only the last line is kept."""
    return Document(source, [Line("", last_line)], size_bytes=last_line * 80, **more)


def quote(line: int, text: str, source: str = LOG) -> Quote:
    return Quote(source, line, text)


def failure(message: Quote, **more) -> Failure:
    """A CUDA OOM as recent versions of PyTorch print it; `more` replaces fields."""
    fields = {
        "format": "F8_211",
        "kind": Kind.DEVICE_OOM,
        "vendor": "cuda",
        "position": Position(0, message.line - 1),
        "end": Position(0, message.line - 1),
        "quote": message,
        "raised": True,
        **more,
    }
    return Failure(**fields)


def phase(which: Phase, why: str, **more) -> PhaseVerdict:
    evidence = "none" if which is Phase.UNKNOWN else "frame"
    return PhaseVerdict(**{"phase": which, "evidence": evidence, "why": why, **more})


BACKWARD = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 580.00 MiB. GPU 1 has a total capacity of 79.11 GiB "
    "of which 328.62 MiB is free. Including non-PyTorch memory, this process has 78.79 GiB memory in use. Of the "
    "allocated memory 76.12 GiB is allocated by PyTorch, and 737.28 MiB is reserved by PyTorch but unallocated."
)


def backward_incident(rank: int = 1, line: int = 412, device: int = 1) -> Incident:
    """Rank 1 of 4, in the backward pass, with every number that a message can print about one process."""
    numbers = {
        "requested_bytes": amount("580.00 MiB"),
        "capacity_bytes": amount("79.11 GiB"),
        "free_bytes": amount("328.62 MiB"),
        "process_bytes": amount("78.79 GiB"),
        "allocated_bytes": amount("76.12 GiB"),
        "unallocated_bytes": amount("737.28 MiB"),
    }
    frame = Frame("/workspace/train.py", 70, "train", "loss.backward()", "", Position(0, 405))
    return Incident(
        failure=failure(
            quote(line, BACKWARD),
            numbers=numbers,
            device=device,
            rank=rank,
            detail={"torch_version": "2.11.0"},
        ),
        status="fatal",
        rank=rank,
        phase=phase(
            Phase.BACKWARD,
            "the deepest frame that belongs to training calls backward",
            frame=frame,
            quote=quote(406, 'File "/workspace/train.py", line 70, in train'),
            first_step=False,
        ),
        ledger=ledger(
            capacity="79.11 GiB",
            free="328.62 MiB",
            process="78.79 GiB",
            allocated="76.12 GiB",
            cached="737.28 MiB",
            segment="580.00 MiB",
        ),
        copies=(failure(quote(498, BACKWARD), numbers=numbers, device=device),),
        why_status="no later line shows that the job went on",
    )


ACTIVATIONS = Finding(
    code="OOM201",
    cause="activations",
    name="activations-fill-the-card",
    certainty=Certainty.LIKELY,
    says="Activations kept for backward fill the card: 76.12 GiB are allocated and only 737.28 MiB are cached.",
    phase=Phase.BACKWARD,
    rank=1,
    numbers={"allocated_bytes": 81733227643, "cached_bytes": 773091819},
    evidence=(quote(412, BACKWARD), quote(12, "config: micro_batch: 4, seq_len: 4096")),
    actions=("smaller-micro-batch", "checkpointing"),
    score=0.8,
)
LOGITS = Finding(
    code="OOM203",
    cause="logits_loss",
    name="logits-too-large",
    certainty=Certainty.POSSIBLE,
    says="The loss may hold logits in fp32; no frame shows it.",
    phase=Phase.BACKWARD,
    evidence=(quote(12, "config: micro_batch: 4, seq_len: 4096"),),
)

ADVICE = Advice(
    first=Step(
        code="smaller-micro-batch",
        title="Halve the micro-batch to 2 and double accumulation",
        text="Activations grow with the micro-batch, so half of it frees about half of them; accumulation keeps the "
        "effective batch.",
        paste="torchrun --nproc-per-node 4 train.py --micro-batch 2 --accumulate 8",
        frees_bytes=251 * 2**20,
        outcomes=(
            ("It fits", "raise the micro-batch by one until it does not"),
            ("It fails at the same place", "set the micro-batch to 1 before changing anything else"),
        ),
    ),
    then=(
        Step(
            "checkpointing",
            "Turn on activation checkpointing",
            "It trades about a third more compute for most of the activations.",
            "model.gradient_checkpointing_enable()",
        ),
    ),
    avoid=("torch.cuda.empty_cache(): PyTorch has already given its cache back before it failed.",),
    collect=(
        Step(
            "snapshot",
            "Record a memory snapshot",
            "It shows which tensors are alive.",
            "torch.cuda.memory._record_memory_history()\ntrain_step()\ntorch.cuda.memory._dump_snapshot('oom.pickle')",
        ),
    ),
)

JOB = (
    Fact("torch_version", "2.11.0", Position(0, 2), quote(3, "torch 2.11.0+cu130")),
    Fact("gpu_name", "NVIDIA H100 80GB HBM3", Position(0, 3), quote(4, "GPU: NVIDIA H100 80GB HBM3")),
    Fact("batch_size", "4", Position(0, 11), quote(12, "config: micro_batch: 4, seq_len: 4096")),
    Fact("total_params", "6738415616", Position(0, 13), quote(14, "model ready, 6738.4M parameters")),
)


def fatal() -> Diagnosis:
    """A rank of four dies in backward; everything is known."""
    incident = backward_incident()
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(
            first=1,
            how="the launcher names it as the root cause",
            failed=(1,),
            consequences={
                0: "was stopped by the launcher (SIGTERM)",
                2: "was stopped by the launcher (SIGTERM)",
                3: "was stopped by the launcher (SIGTERM)",
            },
        ),
        findings=(ACTIVATIONS, LOGITS),
        ruled_out=(
            RuledOut(
                "fragmentation",
                "all 737.28 MiB cached are 1 % of what is reserved; joining them frees too little",
            ),
            RuledOut("another process", "this process holds 78.79 of the 79.11 GiB"),
        ),
        evidence=Evidence(
            documents=(document(LOG, 520),),
            facts=(
                Fact("progress", "43", Position(0, 300), quote(301, "step 43/400 loss 5.1")),
                Fact("progress", "44", Position(0, 305), quote(306, "step 44/400 loss 5.0")),
                Fact("progress", "45", Position(0, 450), quote(451, "step 45/400 loss 5.0")),
            ),
        ),
        advice=ADVICE,
        job=JOB,
    )


def recovered(count: int = 2) -> Diagnosis:
    """A batch finder caught its OOMs and the job ended well."""
    caught = tuple(
        Incident(
            failure=failure(
                quote(40 + 10 * number, "CUDA out of memory. Tried to allocate 2.00 GiB.", "-"), device=0
            ),
            status="caught",
            rank=None,
            phase=phase(Phase.FORWARD, "the deepest frame is the model's forward"),
            ledger=ledger(capacity="23.69 GiB", free="1.12 GiB", segment="2.00 GiB"),
            why_status="later lines show training steps",
        )
        for number in range(count)
    )
    return Diagnosis(
        outcome=Outcome.RECOVERED,
        summary="",
        incident=caught[-1],
        incidents=caught,
        ranks=RankVerdict(None, ""),
        findings=(),
        ruled_out=(),
        evidence=Evidence(documents=(document("-", 90),)),
    )


def no_oom() -> Diagnosis:
    """Two files without a failure for lack of memory; another error ended the job."""
    return Diagnosis(
        outcome=Outcome.NO_OOM,
        summary="",
        incident=None,
        incidents=(),
        ranks=RankVerdict(None, ""),
        findings=(),
        ruled_out=(),
        evidence=Evidence(documents=(document("rank0.log", 1000), document("rank1.log", 204))),
        other_errors=(quote(990, "RuntimeError: CUDA error: device-side assert triggered", "rank0.log"),),
        notes=("rank1.log ends in the middle of a line.",),
    )


def unknown_phase() -> Diagnosis:
    """One pasted line of an old PyTorch: no frame, no rank, no cause that is proved."""
    message = (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.17 GiB total capacity; 10.67 GiB "
        "already allocated; 3.44 MiB free; 10.86 GiB reserved in total by PyTorch)"
    )
    incident = Incident(
        failure=failure(quote(1, message, "-"), format="F2_reserved", device=0),
        status="fatal",
        rank=None,
        phase=phase(Phase.UNKNOWN, "no frame and no line of the job says it"),
        ledger=ledger(
            capacity="11.17 GiB",
            free="3.44 MiB",
            allocated="10.67 GiB",
            reserved="10.86 GiB",
            segment="20.00 MiB",
        ),
    )
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="CUDA out of memory on GPU 0; one line alone does not prove a cause",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(None, ""),
        findings=(),
        ruled_out=(),
        evidence=Evidence(documents=(document("-", 1),)),
        advice=Advice(
            first=Step(
                "collect-traceback",
                "Give oomph the whole output of the job",
                "The traceback above this line says in which phase it failed.",
                "python train.py 2>&1 | tee train.log; oomph explain train.log",
            )
        ),
    )


def several_ranks() -> Diagnosis:
    """Eight ranks: two fail on their own, the others die of it for two reasons; one OOM was caught before."""
    first = backward_incident()
    second = backward_incident(rank=3, line=440, device=3)
    caught = recovered(1).incidents[0]
    base = fatal()
    reset = "lost its connection to a rank that had died"
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="",
        incident=first,
        incidents=(caught, first, second),
        ranks=RankVerdict(
            first=1,
            how="its message has the earliest time",
            failed=(1, 3),
            consequences={
                0: reset,
                2: reset,
                4: reset,
                5: reset,
                6: reset,
                7: "waited for a collective until its watchdog gave up",
            },
            notes=("Rank 3 failed 0.2 s later with the same numbers.",),
        ),
        findings=base.findings,
        ruled_out=base.ruled_out,
        evidence=Evidence(documents=(document(LOG, 520, gaps=(100,)),)),
        advice=ADVICE,
    )


def host_kill() -> Diagnosis:
    """Exit code -9 and nothing else."""
    line = quote(77, "exitcode  : -9 (pid: 13303)  (SIGKILL)")
    incident = Incident(
        failure=failure(line, format="K1_sigkill", kind=Kind.KILLED, raised=False, rank=1),
        status="fatal",
        rank=1,
        phase=phase(Phase.UNKNOWN, "a killed process prints no traceback"),
        ledger=Ledger(),
    )
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(
            1, "it is the only rank with SIGKILL", (1,), {0: "was stopped by the launcher (SIGTERM)"}
        ),
        findings=(
            Finding(
                "OOM401",
                "host_ram",
                "host-memory-exhausted",
                Certainty.POSSIBLE,
                "SIGKILL is what the kernel sends when host memory runs out; preemption and scancel send it too.",
                evidence=(line,),
            ),
        ),
        ruled_out=(),
        evidence=Evidence(documents=(document(LOG, 80),)),
        advice=Advice(
            first=Step(
                "ask-the-kernel", "Ask the kernel who killed it", "", "dmesg -T | grep -i 'killed process'"
            )
        ),
    )


def doctored() -> Diagnosis:
    """A message whose reserved memory is below what is allocated, with processes and a limit."""
    message = (
        "CUDA out of memory. Tried to allocate 1.31 GiB. GPU 0 has a total capacity of 39.38 GiB of which 1.03 GiB is "
        "free. 20.00 GiB allowed; 35.00 GiB already allocated; 0 bytes reserved in total by PyTorch"
    )
    incident = Incident(
        failure=failure(
            quote(9, message),
            device=0,
            processes=(ProcessUse(4242, amount("1.50 GiB")), ProcessUse(4300, None)),
            artefacts=("process_0_bytes",),
        ),
        status="fatal",
        rank=None,
        phase=phase(Phase.BACKWARD, "the checkpoint's recompute calls the block again", recompute=True),
        ledger=ledger(
            capacity="39.38 GiB",
            free="1.03 GiB",
            allocated="35.00 GiB",
            reserved="0 bytes",
            limit="20.00 GiB",
            private_pool="2.50 GiB",
            segment="1.31 GiB",
        ),
    )
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(None, ""),
        findings=(),
        ruled_out=(),
        evidence=Evidence(documents=(document(LOG, 9, notes=("3 bytes could not be decoded.",)),)),
        notes=("The message contradicts itself; a made-up or damaged log does that.",),
    )


def look_alike() -> Diagnosis:
    """A kernel that wants more shared memory than a multiprocessor has: no lack of device memory."""
    message = quote(
        61, "OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376"
    )
    verdict = phase(Phase.FORWARD, "the deepest frame is the model's forward")
    incident = Incident(
        failure=failure(message, format="T1_triton_smem", kind=Kind.NOT_MEMORY),
        status="fatal",
        rank=None,
        phase=verdict,
        ledger=Ledger(),
    )
    return Diagnosis(
        outcome=Outcome.NO_OOM,
        summary="Not an out-of-memory failure",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(None, "no memory failure"),
        findings=(
            Finding(
                "OOM601",
                "not_an_oom",
                "kernel-needs-more-shared-memory",
                Certainty.CERTAIN,
                "A Triton kernel asks for 180224 bytes of a multiprocessor's shared memory, which has 101376.",
                evidence=(message,),
            ),
        ),
        ruled_out=(),
        evidence=Evidence(documents=(document(LOG, 61),)),
        advice=Advice(
            first=Step(
                "smaller-tiles", "Use smaller tiles in that kernel", "Device memory has no part in it."
            )
        ),
        phase=verdict,
    )


ALL = {
    "fatal": fatal,
    "recovered": recovered,
    "no_oom": no_oom,
    "unknown_phase": unknown_phase,
    "several_ranks": several_ranks,
    "host_kill": host_kill,
    "doctored": doctored,
    "look_alike": look_alike,
}
