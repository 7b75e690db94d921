"""What torchrun, accelerate, deepspeed, mpirun and composer start on one node, from their command lines."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.evidence.environment.formats import options
from oomph.evidence.environment.formats.shell_words import Word
from oomph.evidence.environment.model import Launch
from oomph.evidence.model import Quote

_TORCHRUN_FLAGS = frozenset(
    [
        "standalone",
        "module",
        "no-python",
        "run-path",
        "monitor-interval-off",
        "use-env",
        "use_env",
        "signals-to-handle-off",
    ]
)
_ACCELERATE_FLAGS = frozenset(
    [
        "cpu",
        "multi-gpu",
        "tpu",
        "ipex",
        "use-deepspeed",
        "use-fsdp",
        "use-megatron-lm",
        "use-mps-device",
        "use-xpu",
        "module",
        "no-python",
        "quiet",
        "debug",
        "no-tpu-cluster",
        "tpu-use-cluster",
        "tpu-use-sudo",
        "dynamo-use-fullgraph",
        "dynamo-use-dynamic",
        "same-network",
        "enable-cpu-affinity",
        "use-parallelism-config",
    ]
)
_DEEPSPEED_FLAGS = frozenset(
    [
        "module",
        "no-python",
        "no-local-rank",
        "no-ssh",
        "no-ssh-check",
        "force-multi",
        "enable-each-rank-log-off",
        "elastic-training",
        "bind-cores-to-rank",
        "save-pid",
    ]
)
_MPI_FLAGS = frozenset(
    [
        "allow-run-as-root",
        "oversubscribe",
        "bynode",
        "bysocket",
        "bycore",
        "tag-output",
        "report-bindings",
        "v",
        "verbose",
        "q",
        "quiet",
        "nooversubscribe",
    ]
)
_COMPOSER = {"n": "nproc"}


def torchrun(
    words: Sequence[Word], quote: Quote, *, program: str, defaults: bool
) -> tuple[Launch, Sequence[Word]]:
    """`words` behind "torchrun". Without the options there is one process on one node (`defaults`), unless the
    surroundings may set PET_NPROC_PER_NODE."""
    given = options.read(
        words, short={"m": "module", "r": "redirects", "t": "tee"}, flags=_TORCHRUN_FLAGS, flag_letters="m"
    )
    processes, word = given.number("nproc-per-node"), ""
    if given.has("nproc-per-node"):
        value = given.last("nproc-per-node")
        word = value if value in ("auto", "gpu", "cpu") else ""
    elif defaults:
        processes = 1
    return (
        Launch(
            quote=quote,
            program=program,
            nodes=_nodes(given, defaults=defaults),
            processes=processes,
            processes_word=word,
        ),
        given.rest,
    )


def _nodes(given: options.Options, *, defaults: bool) -> int | None:
    if not given.has("nnodes"):
        return 1 if defaults else None
    least, _, most = (given.last("nnodes") or "").partition(":")
    if not least.isdigit() or (most and most != least):
        return None
    return int(least) if len(least) < 7 else None


def accelerate(words: Sequence[Word], quote: Quote) -> tuple[Launch, Sequence[Word]]:
    """`words` behind "accelerate launch": num_processes counts over all machines."""
    given = options.read(
        words, short={"m": "module", "q": "quiet"}, flags=_ACCELERATE_FLAGS, flag_letters="mq"
    )
    total, machines = given.number("num-processes"), given.number("num-machines")
    if not given.has("num-machines") and total is not None and not given.has("config-file"):
        machines = 1
    processes = total // machines if total is not None and machines and total % machines == 0 else None
    return Launch(quote=quote, program="accelerate", nodes=machines, processes=processes), given.rest


def deepspeed(words: Sequence[Word], quote: Quote) -> tuple[Launch, Sequence[Word]]:
    """`words` behind "deepspeed": without options it starts one process for each GPU."""
    given = options.read(
        words, short={"H": "hostfile", "i": "include", "e": "exclude"}, flags=_DEEPSPEED_FLAGS
    )
    processes = given.number("num-gpus")
    nodes = given.number("num-nodes")
    include = given.last("include")
    if include and "@" not in include:
        host, _, slots = include.partition(":")
        if slots and host:
            processes, nodes = len([one for one in slots.split(",") if one]), nodes or 1
    word = "" if given.has("num-gpus", "include", "exclude") else "gpu"
    return (
        Launch(quote=quote, program="deepspeed", nodes=nodes, processes=processes, processes_word=word),
        given.rest,
    )


def mpirun(
    words: Sequence[Word], quote: Quote, program: str
) -> tuple[Launch, Sequence[Word], list[str | None]]:
    """`words` behind "mpirun": (launch, the command, its -x options)."""
    short = {"n": "np", "c": "np", "H": "host", "N": "npernode", "x": "x", "f": "hostfile", "p": "p"}
    if program == "horovodrun":
        short["p"] = "ssh-port"
    pairs = _mca(words)
    given = options.read(pairs, short=short, flags=_MPI_FLAGS, single_dash=True)
    total = given.number("np")
    per_node = given.number("npernode", "ppn", "perhost", "N")
    hosts = given.last("host", "hosts", "hostlist")
    nodes: int | None = None
    if hosts:
        names = [one for one in hosts.split(",") if one]
        nodes = len(names)
        slots = {one.partition(":")[2] for one in names}
        if per_node is None and len(slots) == 1 and (slot := slots.pop()).isdigit():
            per_node = int(slot)
    elif total is not None and not given.has("hostfile", "machinefile", "default-hostfile"):
        # Without hosts all start here, unless a scheduler hands mpirun its own list.
        nodes = 1 if per_node is None or per_node == total else None
    if per_node is None and total is not None and nodes and total % nodes == 0:
        per_node = total // nodes
    return (
        Launch(quote=quote, program=program, nodes=nodes, processes=per_node),
        given.rest,
        given.all("x", "env", "genv"),
    )


def _mca(words: Sequence[Word]) -> list[Word]:
    """The words without "--mca NAME VALUE" and the like, which take two values."""
    out: list[Word] = []
    at = 0
    while at < len(words):
        name = words[at].text.lstrip("-")
        if words[at].text.startswith("-") and name in ("mca", "gmca", "genv", "env", "prtemca", "pmixmca"):
            if (
                name in ("genv", "env")
                and at + 2 < len(words)
                and words[at + 1].value
                and words[at + 2].value
            ):
                out += [Word("-x", "-x"), Word("", f"{words[at + 1].partial}={words[at + 2].partial}")]
            at += 3
            continue
        out.append(words[at])
        at += 1
    return out


def composer(words: Sequence[Word], quote: Quote) -> tuple[Launch, Sequence[Word]]:
    """`words` behind "composer"."""
    given = options.read(
        words, short=_COMPOSER, flags=frozenset({"v", "verbose", "stderr-off"}), flag_letters="vm"
    )
    return Launch(quote=quote, program="composer", processes=given.number("nproc")), given.rest
