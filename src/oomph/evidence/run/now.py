"""What a rank was doing when its file of that was last written: ranks/rank-N.now."""

from __future__ import annotations

import msgspec

from oomph.evidence.run.model import RANKS, Now, rank_name

#: A file of `Now` has this many bytes, so that writing over it never leaves a part of what was there.
NOW_BYTES = 320
_NOW: msgspec.json.Decoder[Now] = msgspec.json.Decoder(Now)
_ENCODER = msgspec.json.Encoder()


def now_name(rank: int) -> str:
    """The file's name below the run directory."""
    return f"{RANKS}/{rank_name(rank)}.now"


def encode_now(now: Now) -> bytes:
    """`now` as the file has it: one line of `NOW_BYTES`."""
    line = _ENCODER.encode(now)
    if len(line) >= NOW_BYTES:
        line = _ENCODER.encode(msgspec.structs.replace(now, where=""))
    return line.ljust(NOW_BYTES - 1)[: NOW_BYTES - 1] + b"\n"


def decode_now(data: bytes) -> Now | None:
    """What the file says; None where it is torn, empty or something else."""
    try:
        return _NOW.decode(data.strip(b"\0 \r\n\t"))
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
        return None
