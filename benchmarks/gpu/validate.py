"""Small real jobs, recorded: phases against memory snapshots, and points for plan and trace to be judged by.

    python benchmarks/gpu/validate.py --out FOLDER [--minutes 12] [--only NAME]... [--trace] [--device cuda|cpu]
    python benchmarks/accuracy.py --points FOLDER/points.jsonl

Needs one GPU, PyTorch, transformers and peft, and no network: models are made from configurations. Three sizes, whole
and with adapters, with and without checkpointing, AdamW fused and foreach; four steps and an evaluation each. Every job
runs in a process of its own under `oomph.record()`, with torch's memory history on. For each:

- the recorder's peak of each phase against the same stretch of the memory snapshot, and the phase that its stacks name;
- what the script itself reads of `torch.cuda.max_memory_allocated()` against the highest recorded phase;
- each phase against `oomph plan`, and with --trace against `oomph trace` of the same script on no GPU.

It stops in time and says what it left out; jobs that are predicted not to fit are left out too. FOLDER has points.jsonl
with configs/ beside it, validate.json with every number, and each run with its snapshot. `--device cpu` goes the whole
way on the CPU, counted as if it were a GPU, with tiny models: a check of this script. Predictions mean nothing there.

Exit code 1 where phases and snapshot disagree or a job fails, 2 where nothing can run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
#: Seconds that a job needs at the least (imports, the context), and what is kept back for the end.
LEAST, RESERVE = 20.0, 10.0
#: A peak between two phases is a phase of its own from here on (recording/boundaries.py).
BETWEEN = 1.02


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    until = time.monotonic() + 60 * options.minutes - (RESERVE if options.device == "cuda" else 0)
    card = _card(options.device)
    if card is None:
        print("No GPU that PyTorch can use; --device cpu goes the whole way without one.", file=sys.stderr)
        return 2
    from benchmarks.gpu.validating.points import gpu_name, write
    from benchmarks.gpu.validating.works import works

    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [
        each for each in works(options.device == "cpu") if not options.only or each.name in options.only
    ]
    print(
        f"{card['gpu']}, torch {card['versions']['torch']}; {len(chosen)} jobs, {options.minutes:g} minutes"
    )
    results: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    slowest = LEAST if options.device == "cuda" else 1.0
    for work in chosen:
        left = until - time.monotonic()
        why = "" if left > slowest else f"{left:.0f} s were left, and a job takes {slowest:.0f} s"
        why = why or _too_large(work, card)
        if why:
            left_out[work.name] = why
            print(f"{work.name:<34}left out: {why}", flush=True)
            continue
        began = time.monotonic()
        result = _one(work, options, left)
        slowest = max(slowest, time.monotonic() - began)
        results.append(result)
        _print(result)
    if options.trace:
        _trace(results, gpu_name(card["gpu"]), card["versions"]["torch"], until)
    done = [work for work in chosen if work.name in {each["name"] for each in results}]
    path = write(options.out, done, [point for each in results for point in each["points"]])
    table = {"card": card, "results": results, "left_out": left_out}
    (options.out / "validate.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    bad = [each["name"] for each in results if not each["good"]]
    print(f"\n{len(results) - len(bad)} of {len(results)} jobs good, {len(left_out)} left out; {path}")
    return 1 if bad or not results else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--trace", action="store_true", help="trace each job too, while there is time")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args(arguments)


def _card(device: str) -> dict[str, Any] | None:
    """The card, without a context of this process's own on it; None where there is none."""
    code = (
        "import json, torch\n"
        "from importlib.metadata import version\n"
        "print(json.dumps({'gpu': torch.cuda.get_device_name(0), 'capacity': torch.cuda.mem_get_info(0)[0],\n"
        "    'versions': {each: version(each) for each in ('torch', 'transformers', 'peft')}}))"
    )
    if device == "cpu":
        code = code.replace("torch.cuda.get_device_name(0)", "'CPU'").replace(
            "torch.cuda.mem_get_info(0)[0]", "None"
        )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _too_large(work: Any, card: dict[str, Any]) -> str:
    """Why a job is not tried: it is predicted not to fit into what is free. On the CPU nothing is."""
    from benchmarks.gpu.validating.predicted import plan_of

    if card["capacity"] is None:
        return ""
    plan = plan_of(work, card)
    if isinstance(plan, str):
        return ""
    high = max(peak.high_bytes for peak in plan.worst.phases.values())
    return "" if high < card["capacity"] else f"{high / 2**30:.1f} GiB are predicted"


def _one(work: Any, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Runs one job and judges it."""
    folder = options.out / "runs" / work.name
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "work.json"
    work.write(spec)
    job = ROOT / "benchmarks" / "gpu" / "validating" / "job.py"
    command = [sys.executable, str(job), str(spec), "--device", options.device, "--out", str(folder)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environment.pop("OOMPH_RUN_DIR", None)
    result: dict[str, Any] = {"name": work.name, "spec": str(spec), "good": False, "points": [], "phases": {}}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=max(1.0, seconds), env=environment
        )
    except subprocess.TimeoutExpired:
        return {**result, "error": f"stopped after {seconds:.0f} s"}
    if done.returncode:
        return {**result, "error": " ".join(done.stderr.split())[-400:]}
    return {**result, **_judged(work, folder)}


def _judged(work: Any, folder: Path) -> dict[str, Any]:
    from benchmarks.gpu.validating.check import check
    from benchmarks.gpu.validating.points import rows
    from benchmarks.gpu.validating.predicted import plan_of
    from oomph.evidence.run.read import read_run
    from oomph.phases import Phase

    data = read_run(folder / "run")
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    if facts["snapshot"]:
        return {"error": f"no snapshot: {facts['snapshot']}"}
    checks = check(data, folder / "snapshot.pickle")
    rank = data.ranks[min(data.ranks)]
    phases: dict[str, dict[str, Any]] = {
        phase.value: {"recorded": summary.peak_allocated_bytes, "reserved": summary.peak_reserved_bytes}
        for phase, summary in rank.summaries.items()
    }
    for each in checks:
        phases[each.phase.value] |= {"check": asdict(each) | {"phase": each.phase.value, "good": each.good}}
    plan = plan_of(work, facts)
    if not isinstance(plan, str):
        for phase, peak in plan.worst.phases.items():
            # A model that is made from its configuration is not loaded as a checkpoint is.
            if phase.value in phases and phase is not Phase.LOAD:
                its = phases[phase.value]
                its |= {"planned": peak.allocated_bytes, "low": peak.low_bytes, "high": peak.high_bytes}
    highest = max((each["recorded"] for each in phases.values()), default=0)
    read = facts.get("script_max_allocated")
    seen = {each.phase.value for each in checks}
    return {
        "good": bool(seen >= {"forward", "backward", "optimizer", "eval"})
        and all(each.good for each in checks)
        and (read is None or highest <= read <= BETWEEN * highest + (1 << 20)),
        "facts": facts,
        "phases": phases,
        "script_reads": read,
        "why_no_plan": plan if isinstance(plan, str) else "",
        "points": rows(work, data, facts),
    }


def _trace(results: list[dict[str, Any]], gpu: str, torch: str, until: float) -> None:
    """Traces the jobs that ran, while there is time."""
    from benchmarks.gpu.validating.predicted import traced

    for result in results:
        left = until - time.monotonic()
        if not result["phases"] or left < LEAST:
            result["trace"] = "left out: no time" if result["phases"] else "left out: the job failed"
            continue
        found = traced(Path(result["spec"]), gpu, torch, left)
        if isinstance(found, str):
            result["trace"] = found
            continue
        for phase, size in found.items():
            if phase.value in result["phases"]:
                result["phases"][phase.value]["traced"] = size
        sizes = [its for its in result["phases"].values() if "traced" in its]
        off = [f"{its['traced'] / its['recorded'] - 1:+.2%}" for its in sizes if its["recorded"]]
        print(f"{result['name']:<34}traced: {', '.join(off)}", flush=True)


def _print(result: dict[str, Any]) -> None:
    """A line for the job and one for each phase."""
    if "error" in result:
        print(f"{result['name']:<34}FAILED: {result['error']}", flush=True)
        return
    print(f"{result['name']:<34}{'good' if result['good'] else 'BAD'}", flush=True)
    for name, its in result["phases"].items():
        line = f"  {name:<12}{its['recorded'] / 2**30:>9.3f} GiB"
        if "check" in its:
            check = its["check"]
            elsewhere = check["elsewhere"]
            stacks = "" if elsewhere is None else f", {elsewhere:.1%} by stacks elsewhere"
            line += (
                f"  snapshot {check['off_bytes'] / 2**20:+.2f} MiB{stacks}{'' if check['good'] else ' BAD'}"
            )
        if "planned" in its:
            inside = its["low"] <= its["recorded"] <= its["high"]
            line += (
                f"  plan {its['planned'] / max(1, its['recorded']) - 1:+.2%}{'' if inside else ' (outside)'}"
            )
        print(line, flush=True)
    if result["why_no_plan"]:
        print(f"  no plan: {result['why_no_plan']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
