"""How long the page of a snapshot takes to open, against its promise of 3 seconds for a million events.

    python benchmarks/bench_snapshot_page.py [--events 1000000] [--file SNAPSHOT]

Without a file, a snapshot is written first (as in bench_snapshot_read.py). The page is made once; headless Chromium,
which OOMPH_CHROMIUM may name, opens it three times with a new profile's empty cache. Counted is the time from asking
for the file until everything is drawn; the slowest of three counts. Prints that as a ratio to 3 seconds, beside the
page's size and what making it took beyond the report.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench_snapshot_read import write

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.evidence.snapshot import read
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html import render_html

_BOUND = 3.0
_TURNS = 3
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def make(snapshot: Path, page: Path) -> tuple[int, float]:
    """Writes the page; the number of events, and the seconds that the page took after the report was there."""
    loaded = read(snapshot)
    analyses = analyse(loaded)
    report = report_of(loaded, analyses=analyses, size_bytes=snapshot.stat().st_size)
    begun = time.perf_counter()
    page.write_text(render_html(report, analyses, ReportOptions()), encoding="utf-8")
    return sum(device.events for device in report.devices), time.perf_counter() - begun


def open_once(path: Path, browser_path: str) -> float:
    """Seconds from asking for the page until it is drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=_FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        begun = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        seconds = time.perf_counter() - begun
        browser.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    arguments = parser.parse_args()
    browser_path = (
        os.environ.get("OOMPH_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if browser_path is None:
        sys.exit("no Chromium here: install one, or name it in OOMPH_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        snapshot = arguments.file
        if snapshot is None:
            snapshot = Path(folder) / "snapshot.pickle"
            write(snapshot, arguments.events)
        page = Path(folder) / "page.html"
        events, made = make(snapshot, page)
        seconds = max(open_once(page, browser_path) for _ in range(_TURNS))
        print(f"{events:,} events: a page of {page.stat().st_size / 1e6:.2f} MB, made in {made:.2f} s")
        print(
            f"opened and drawn in {seconds:.2f} s at the slowest of {_TURNS}: {seconds / _BOUND:.2f} of {_BOUND:g} s"
        )


if __name__ == "__main__":
    main()
