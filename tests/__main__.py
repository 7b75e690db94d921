"""`python -m tests [pytest options]`: every check that CI runs, in order; pytest last.

All checks run even when one fails; the exit code is 1 if any did. Needs the extra `test` (`pip install -e '.[test]'`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy"],
    "import-linter": [
        "-c",
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())",
    ],
    # A file's tests stay in one process: they share traces that take seconds.
    "pytest": ["-m", "pytest", "-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile"],
}


def main() -> int:
    """Runs the checks from the root of the checkout and returns the exit code."""
    # Tests start hundreds of processes: each would compile everything anew.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    failed = []
    for name, arguments in CHECKS.items():
        print(f"== {name}", flush=True)
        extra = sys.argv[1:] if name == "pytest" else []
        command = [sys.executable, *arguments, *extra]
        if subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
