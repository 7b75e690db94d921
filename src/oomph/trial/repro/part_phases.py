"""What both scripts begin and end with: the options, the phases that are measured, the function that runs it all."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.trial.repro.literals import literal
from oomph.trial.repro.tasks import task_of

PHASES = '''\
class Reached(Exception):
    """The phase in question has passed: nothing more is run."""


class Phases:
    """`with phases("forward"):` measures a phase, and ends the script after the last pass of the one in question."""

    def __init__(self, options):
        self.last, self.on_gpu, self.peaks = options.phase, options.device == "cuda", {}
        passes = options.steps * ACCUMULATION
        self.left = {"forward": passes, "backward": passes, "optimizer": options.steps}

    @contextlib.contextmanager
    def __call__(self, name):
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        yield
        if self.on_gpu:
            peak = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            self.peaks[name] = tuple(map(max, peak, self.peaks.get(name, peak)))
        self.left[name] = self.left.get(name, 1) - 1
        if name == self.last and not self.left[name]:
            raise Reached

    def show(self, rank):
        lines = [] if self.on_gpu else ["done; PyTorch counts no memory on the CPU, `oomph record` does"]
        for name, (allocated, reserved) in self.peaks.items():
            gib = f"{allocated / 2**30:.2f} GiB allocated, {reserved / 2**30:.2f} GiB reserved"
            lines.append(f"{name:<9} at most {gib}")
        sys.stdout.write("".join(f"rank {rank}: {line}\\n" for line in lines))
'''


def options(job: Job, default: str, phases: list[str]) -> str:
    """`arguments()`."""
    batch, evaluation = job.batch, job.evaluation
    lines = [
        "def arguments():",
        '    parser = argparse.ArgumentParser(description=__doc__.partition("\\n")[0])',
        "    add = parser.add_argument",
        f"    phases = {literal(phases, 4)}",
        f'    add("--phase", choices=phases, default={literal(default)}, help="stop after it; all: after the last")',
        f'    add("--batch", type=int, default={batch.micro}, help="samples of one forward on one rank")',
    ]
    if not task_of(job.model)[0].images:
        lines.append(f'    add("--seq", type=int, default={batch.sequence}, help="tokens of a sample")')
    if evaluation.batch is not None:
        lines.append(f'    add("--eval-batch", type=int, default={evaluation.batch})')
    lines += [
        '    add("--steps", type=int, default=2, help="the second has the optimizer\'s states from its start")',
        '    add("--device", choices=["cuda", "cpu"], default="cuda")',
        "    return parser.parse_args()",
    ]
    return "\n".join(lines) + "\n"


def versions(job: Job) -> str:
    """`compare_versions()`: says where what is installed is not what the job ran with. "" where no version is known."""
    known = {
        name: version
        for name, version in job.framework.versions
        if name in ("torch", "transformers", "accelerate", "peft", "bitsandbytes")
    }
    if not known:
        return ""
    return f'''\
def compare_versions():
    """Other versions of these keep and cast other things."""
    for name, version in {literal(known, 4)}.items():
        installed = importlib.metadata.version(name).partition("+")[0]
        if installed != version:
            print(f"the job ran with {{name}} {{version}}, here is {{installed}}", file=sys.stderr)


'''


def main(job: Job, *, compares: bool, makes_group: bool) -> str:
    """`main()`."""
    ranks = job.parallel.ranks
    lines = ["def main():", "    options = arguments()"]
    if compares:
        lines.append("    compare_versions()")
    lines.append('    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))')
    lines += [
        f"    if world != {ranks}:",
        f'        print(f"the job has {ranks} rank{"s" if ranks != 1 else ""}, here {{world}} run", file=sys.stderr)',
        '    if options.device == "cuda":',
        '        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))',
    ]
    if makes_group:
        lines += [
            '    group = {"backend": "nccl" if options.device == "cuda" else "gloo"}',
            '    if "RANK" not in os.environ:  # started without torchrun: a group of this process alone',
            '        group |= {"rank": 0, "world_size": 1, "store": torch.distributed.HashStore()}',
            "    torch.distributed.init_process_group(**group)",
        ]
    lines += [
        "    phases = Phases(options)",
        "    with contextlib.suppress(Reached):",
        "        run(options, phases)",
        "    phases.show(rank)",
        "    if torch.distributed.is_initialized():",
        "        torch.distributed.destroy_process_group()",
        "",
        "",
        'if __name__ == "__main__":',
        "    main()",
    ]
    return "\n".join(lines) + "\n"
