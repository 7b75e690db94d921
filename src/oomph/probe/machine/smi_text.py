"""The text of `nvidia-smi -q`, for who reads what people paste of it, and each card's compute capability, which that
text does not have."""

from __future__ import annotations

import re
import shutil
import subprocess

_TIMEOUT_S = 30.0
_LONGEST = 8 << 20
_CAPABILITY = re.compile(r"(GPU-[0-9a-f-]{36})\s*,\s*(\d{1,2})\.(\d)\s*\Z")


class SmiText:
    """nvidia-smi of the path. `why` says why there is no text; a failing program's text is kept beside it, for it
    often names the reason."""

    def __init__(self, program: str | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        self._program = program or shutil.which("nvidia-smi")
        self._timeout_s = timeout_s
        self.why = ""
        self.text = ""
        if self._program is None:
            self.why = "there is no nvidia-smi on the path"
            return
        self.text = self._ask("-q")

    def capabilities(self) -> dict[str, tuple[int, int]]:
        """By uuid; empty where this nvidia-smi does not know the question (older than driver 510 or so)."""
        why, self.why = self.why, ""
        rows = self._ask("--query-gpu=uuid,compute_cap", "--format=csv,noheader").splitlines()
        self.why = why
        matches = [match for row in rows if (match := _CAPABILITY.match(row.strip()))]
        return {match[1]: (int(match[2]), int(match[3])) for match in matches}

    def _ask(self, *arguments: str) -> str:
        if self._program is None:
            return ""
        try:
            done = subprocess.run(  # noqa: S603 - nvidia-smi of the path, or what a test gives
                [self._program, *arguments],
                capture_output=True,
                timeout=self._timeout_s,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.why = f"nvidia-smi did not answer within {self._timeout_s:g} s"
            return ""
        except OSError as error:
            self.why = f"nvidia-smi cannot be started: {error.strerror or error}"
            return ""
        said = done.stdout[:_LONGEST].decode("utf-8", "replace")
        if done.returncode:
            said = (said.rstrip() + "\n" + done.stderr[:_LONGEST].decode("utf-8", "replace")).strip()
            first = said.splitlines()
            self.why = f"nvidia-smi ended with {done.returncode}{f': {first[0][:200]}' if first else ''}"
        return said
