"""One input from raw bytes to regions of text: decompressed, recognised, decoded, and reduced when it is large."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from oomph.evidence.sources import documents, jsonlines, sniff
from oomph.evidence.sources.decode import decode
from oomph.evidence.sources.limits import Limits, cost, triggers_only
from oomph.evidence.sources.scan import Scanned, scan
from oomph.evidence.sources.streams import Counted, Gunzip, Notes, Pushed, Reader, Transcoded, read_fully
from oomph.evidence.sources.triggers import DECISIVE
from oomph.evidence.sources.unzstd import LONG_WINDOW, Unzstd

#: A log that was compressed twice is still a log; deeper nesting is refused.
_MAX_LAYERS = 2
#: A small text of short lines is read whole all the same, unless they are very many.
_SHORT_LINES = 4
_AGAIN = "Copy it again."
_ADVICE = "Give the job's output (stdout and stderr)."


@dataclass
class Text:
    """What is kept of one input: (1-based number of the first line, text) in order, and sentences about it. `size` is
    the length of the text before anything was left out, in bytes; `reduced` is True when something was.
    `damage` says why there may have been more ("its end is missing"), "" where all was read. `needs`: with this for
    `Limits.kept`, and anything up to what it was, the same would have been read."""

    regions: list[tuple[int, str]]
    size: int
    notes: list[str] = field(default_factory=list)
    reduced: bool = False
    damage: str = ""
    needs: int = 0

    @property
    def kept(self) -> int:
        """Characters that are kept."""
        return sum(len(text) for _, text in self.regions)

    @property
    def cost(self) -> int:
        """What they count for in `limits`."""
        return sum(cost(text) for _, text in self.regions)


@dataclass(frozen=True)
class Refused:
    """An input in which there is nothing to read. `kind` is a `sniff.Content.kind`, "code" or "damaged"; `what`
    completes "FILE is ..."."""

    kind: str
    what: str
    advice: str = ""


def read_text(
    raw: Reader, limits: Limits, *, explicit: bool, tick: Callable[[int], None], ahead: bool = False
) -> Text | Refused:
    """Reads `raw` to its end.

    An `explicit` input that looks like binary data is searched for failure texts before it is refused, and is not
    taken for source code. `tick` is told the raw bytes of every read; with `ahead` a large text is searched in a
    second thread.
    """
    notes = Notes()
    reader, sample, content = _open(Counted(raw, tick, notes), notes)
    if content.kind == "empty":
        if LONG_WINDOW in notes:
            return Refused(
                "window",
                "compressed with a longer window than can be opened here",
                "Run `zstd -d --long=31` on it first.",
            )
        if notes:
            return Refused(
                "damaged", f"damaged: {_before_colon(notes[0])}, and no text stands before that", _AGAIN
            )
        return Refused("empty", "empty")
    if content.kind in ("gzip", "zstd"):
        return Refused("binary", "compressed more than twice", "Decompress it first.")
    if content.kind == "snapshot":
        return Refused("snapshot", content.what, "Save it to a file and run `oomph snapshot` on that.")
    if content.kind == "binary" and (content.known or not explicit):
        return Refused("binary", content.what, "Unpack it first." if content.can_be_unpacked else _ADVICE)
    if content.kind.startswith("utf-"):
        reader = Transcoded(reader, content.kind)
    elif content.kind == "binary":
        return _text_in_binary(reader, limits, notes)
    if not explicit and sniff.is_source_code(sample):
        return Refused("code", "source code")
    text = _read(reader, sample, limits, notes, ahead=ahead)
    text.damage = notes.damage
    # Blank lines are as much as nothing.
    return text if any(region.strip() for _, region in text.regions) else Refused("empty", "empty")


def _before_colon(sentence: str) -> str:
    return sentence.partition(":")[0]


def _open(reader: Reader, notes: Notes) -> tuple[Reader, bytes, sniff.Content]:
    """Decompresses until the bytes are not compressed, and says what they are. The sample is pushed back."""
    sample = b""
    content = sniff.Content("empty")
    for layer in range(_MAX_LAYERS + 1):
        sample = read_fully(reader, sniff.SAMPLE_BYTES)
        reader = Pushed(sample, reader)
        content = sniff.sniff(sample)
        if layer == _MAX_LAYERS:
            break
        if content.kind == "gzip":
            reader = Gunzip(reader, notes)
        elif content.kind == "zstd":
            reader = Unzstd(reader, notes)
        else:
            break
    return reader, sample, content


def _read(reader: Reader, sample: bytes, limits: Limits, notes: Notes, *, ahead: bool) -> Text:
    document = documents.document_bytes(sample)
    whole = max(limits.whole, document)
    data = read_fully(reader, whole + 1)
    if document and len(data) <= document:
        extracted = documents.extract_bytes(data)
        if extracted is not None:
            notes += [extracted.note] if extracted.note else []
            return _bounded([(1, extracted.text)], len(data), limits, notes)
    if len(data) <= limits.whole and cost(data) <= _SHORT_LINES * limits.whole:
        text = jsonlines.unwrap(decode(data).removesuffix("\n"))
        return _bounded([(1, text)], len(data), limits, notes)
    scanned = scan(Pushed(data, reader), limits, ahead=ahead)
    regions = [(passage.line, jsonlines.unwrap(decode(passage.text))) for passage in scanned.passages]
    _say_left_out(scanned, notes)
    kept = _bounded(regions, scanned.size, limits, notes, reduced=True)
    kept.needs = max(kept.needs, scanned.needs)
    return kept


def _bounded(
    regions: list[tuple[int, str]], size: int, limits: Limits, notes: Notes, *, reduced: bool = False
) -> Text:
    """The text, searched (again) where unpacking made it larger than may be kept: a record of JSON lines may hold
    a whole log, and each line of it gets the record's time and rank."""
    kept = Text(regions, size, notes, reduced=reduced)
    total = kept.cost
    kept.needs = min(total, limits.kept)
    if total <= limits.kept:
        return kept
    kept.regions, kept.reduced = [], True
    for first, text in regions:
        share = replace(limits, whole=0, kept=max(1, limits.kept * cost(text) // total))
        scanned = scan(io.BytesIO(text.encode("utf-8", "replace")), share)
        kept.regions += [(first + passage.line - 1, decode(passage.text)) for passage in scanned.passages]
        _say_left_out(scanned, notes)
    return kept


def _say_left_out(scanned: Scanned, notes: Notes) -> None:
    left_out = scanned.left_out.get("failure", 0)
    if left_out:
        notes.append(f"{left_out} more places with a memory failure were counted but not read")


def _text_in_binary(reader: Reader, limits: Limits, notes: Notes) -> Text | Refused:
    """The surroundings of failures in a file that is mostly not text (a core dump, a damaged log)."""
    scanned = scan(reader, triggers_only(limits))
    if not any(scanned.hits.get(name) for name in DECISIVE):
        return Refused("binary", "binary data without readable text", _ADVICE)
    notes.append("mostly binary data: only the text around failures was read")
    regions = [(passage.line, decode(passage.text)) for passage in scanned.passages]
    return Text(regions, scanned.size, notes, needs=scanned.needs)
