"""What a file holds, told from its first bytes. Names are never asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Bytes from the beginning of a file that the answers here are based on.
SAMPLE_BYTES = 64 << 10

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
#: Skippable frames (RFC 8878, 3.1.2) may stand before the first data frame: 0x184D2A50 to 0x184D2A5F.
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"

#: (offset, bytes, what it is). Registered magic numbers of the formats that lie in training directories.
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive (PyTorch checkpoints are such)"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"\x7fELF", "a program or library"),
    (0, b"MZ\x90\x00", "a Windows program"),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program"),
    (0, b"\x89PNG\r\n\x1a\n", "an image"),
    (0, b"\xff\xd8\xff", "an image"),
    (0, b"GIF8", "an image"),
    (0, b"II*\x00", "an image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"GGUF", "model weights (GGUF)"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"ARROW1", "an Arrow file"),
    (0, b"SQLite format 3\x00", "an SQLite database (an Nsight Systems export is one)"),
    (0, b":W&B", "a binary wandb run file"),
    (4, b"ftyp", "a video"),
    (0, b"RIFF", "an audio or video file"),
    (0, b"OggS", "an audio file"),
    (0, b"BZh", "compressed with bzip2"),
    (0, b"\xfd7zXZ\x00", "compressed with xz"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a rar archive"),
    (257, b"ustar", "a tar archive"),
)
#: Those that a person can unpack and try again.
_UNPACK = ("compressed with", "archive")

_NUL_RUN = re.compile(rb"\x00{32,}")
_TEXT_BYTES = bytes(range(0x20, 0x100)).replace(b"\x7f", b"") + b"\t\n\r\x08\x0c\x1b"
_CODE_LINE = re.compile(r"(?:import \w|from [\w.]+ import |def \w|class \w|async def \w|if __name__ ?==)")


@dataclass(frozen=True)
class Content:
    """`kind` is empty, gzip, zstd, text, utf-16-le, utf-16-be, utf-32-le, utf-32-be, snapshot or binary (a known
    format, or bytes that are mostly not text: then `known` is False). `what` says it in words."""

    kind: str
    what: str = ""
    known: bool = True

    @property
    def can_be_unpacked(self) -> bool:
        """True for archives and compressed files that oomph does not open itself."""
        return self.kind == "binary" and any(word in self.what for word in _UNPACK)


def sniff(sample: bytes) -> Content:
    """The content of a file that begins with `sample` (at most `SAMPLE_BYTES` are looked at)."""
    sample = sample[:SAMPLE_BYTES]
    if not sample:
        return Content("empty", "empty")
    if sample.startswith(GZIP):
        return Content("gzip")
    if sample.startswith(ZSTD) or (sample[1:4] == _ZSTD_SKIPPABLE and 0x50 <= sample[0] <= 0x5F):
        return Content("zstd")
    wide = _wide_encoding(sample)
    if wide:
        return Content(wide)
    binary = _known_binary(sample)
    if binary is not None:
        return binary
    if _mostly_not_text(sample):
        return Content("binary", "binary data", known=False)
    return Content("text")


def _known_binary(sample: bytes) -> Content | None:
    for offset, magic, what in _MAGIC:
        if sample.startswith(magic, offset):
            return Content("binary", what)
    if sample[0] == 0x80 and len(sample) > 2 and 2 <= sample[1] <= 5:
        # torch.cuda.memory._dump_snapshot pickles a dict with these two keys.
        if b"segments" in sample and (b"device_traces" in sample or b"total_size" in sample):
            return Content("snapshot", "a PyTorch memory snapshot")
        return Content("binary", "a Python pickle (older PyTorch checkpoints are such)")
    if sample[8:10] == b'{"' and int.from_bytes(sample[:8], "little") < 1 << 27:
        return Content("binary", "model weights (safetensors)")
    if b"brain.Event:" in sample[:64]:
        return Content("binary", "a TensorBoard event file")
    return None


def _wide_encoding(sample: bytes) -> str:
    """The UTF-16 or UTF-32 flavour by byte-order mark, or UTF-16 by where the NULs of Latin text stand."""
    marks = (
        (b"\xff\xfe\x00\x00", "utf-32-le"),
        (b"\x00\x00\xfe\xff", "utf-32-be"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
    )
    for mark, encoding in marks:
        if sample.startswith(mark):
            return encoding
    head = sample[:4096]
    pairs = len(head) // 2
    if pairs < 4:
        return ""
    even = head[0 : 2 * pairs : 2].count(0) / pairs
    odd = head[1 : 2 * pairs : 2].count(0) / pairs
    if odd > 0.6 and even < 0.05:
        return "utf-16-le"
    if even > 0.6 and odd < 0.05:
        return "utf-16-be"
    return ""


def _mostly_not_text(sample: bytes) -> bool:
    """True when more than a third of the bytes are control characters or not UTF-8. Runs of NULs do not count:
    a crashed machine leaves them in good logs."""
    if b"\x00" in sample:
        sample = _NUL_RUN.sub(b"", sample)
        if not sample:
            return True
    controls = len(sample.translate(None, _TEXT_BYTES))
    invalid = sample.decode("utf-8", "replace").count("\ufffd")
    return 3 * (controls + invalid) > len(sample)


def is_source_code(sample: bytes) -> bool:
    """True when `sample` is the beginning of a script, not of its output.

    Run directories often hold a copy of the code, and code may contain every message that it handles. A log that
    echoes its script also prints something else: a traceback frame, or lines that are not code, come first.
    """
    if sample.startswith(b"#!"):
        return True
    text = sample[: 16 << 10].decode("utf-8", "replace")
    if '\n  File "' in text or "Traceback (most recent call last):\n" in text:
        return False
    lines = [line for line in text.split("\n") if line.strip()]
    first = next((line for line in lines if not line.startswith(("#", '"', "'", "@"))), "")
    starts = sum(1 for line in lines if _CODE_LINE.match(line))
    return starts >= 3 and (_CODE_LINE.match(first) is not None or lines[0].startswith(('"""', "#", "'''")))
