"""Published measurements are of jobs that could be: none of them is refused. Looked for beside the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path

from oomph.job.check import check
from oomph.job.families import FAMILIES, architecture
from oomph.job.importers.points import from_point
from oomph.job.resolve import resolve
from oomph.job.toml import from_toml, to_toml
from tests.conftest import ROOT


def _points() -> Path:
    given = os.environ.get("OOMPH_CONFORMANCE")
    return (Path(given) if given else ROOT.parent / "shared") / "points"


def test_published_jobs_can_be() -> None:
    for file in sorted(_points().glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            job = from_point(json.loads(line), _points() / "configs")
            check(job)
            check(resolve(job)[0])
            assert from_toml(to_toml(job)) == job
            assert job.model.family not in FAMILIES or architecture(job.model).total > 0
