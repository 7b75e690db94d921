from __future__ import annotations

import io
import pickle
import random
import zipfile

import pytest

from oomph.evidence.sources.sniff import is_source_code, sniff

LOG = b"step 10 loss 1.23\nTraceback (most recent call last):\n" * 20


def zip_bytes() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return out.getvalue()


def safetensors_bytes() -> bytes:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return len(header).to_bytes(8, "little") + header + bytes(4)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08rest", "gzip"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        (b"\x5a\x2a\x4d\x18\0\0\0\0", "zstd"),
        (LOG, "text"),
        (b"x", "text"),
        ("Speicher erschöpft – 内存不足\n".encode() * 50, "text"),
        (b"\x1b[31mred\x1b[0m\r 10%|# |\x08\x08\n", "text"),
        (b"\xff\xfel\0o\0g\0", "utf-16-le"),
        (b"\xfe\xff\0l\0o\0g", "utf-16-be"),
        (b"\xff\xfe\0\0l\0\0\0", "utf-32-le"),
        (LOG.decode().encode("utf-16-le"), "utf-16-le"),
        (LOG.decode().encode("utf-16-be"), "utf-16-be"),
        (zip_bytes(), "binary"),
        (safetensors_bytes(), "binary"),
        (pickle.dumps({"model": [1.0] * 10}), "binary"),
        (b"\x7fELF\x02\x01\x01", "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        (b"\x93NUMPY\x01\0", "binary"),
        (b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22\x09\0\0\xc0a\xbf\xd9\xdaA\x1a\x0dbrain.Event:2", "binary"),
        (bytes(257) + b"ustar\x0000", "binary"),
        (bytes(4096), "binary"),
        (random.Random(1).randbytes(5000), "binary"),
    ],
)
def test_content_is_told_from_the_bytes(data, kind):
    assert sniff(data).kind == kind


def test_a_memory_snapshot_is_recognised():
    # The two keys that torch.cuda.memory._snapshot() always has.
    data = pickle.dumps({"segments": [{"address": 1, "total_size": 2097152}], "device_traces": [[]]})
    assert sniff(data).kind == "snapshot"


def test_a_log_with_some_junk_is_text():
    junk = random.Random(7).randbytes(700)
    assert sniff(junk + LOG * 3).kind == "text"
    assert sniff(LOG + bytes(60_000)).kind == "text"


def test_unknown_bytes_are_told_from_known_formats():
    assert sniff(zip_bytes()).known
    assert not sniff(random.Random(1).randbytes(5000)).known
    assert sniff(bytes(257) + b"ustar\x0000").can_be_unpacked
    assert not sniff(safetensors_bytes()).can_be_unpacked


CODE = b'''"""Trains."""
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

def main():
    pass
'''


def test_code_is_told_from_its_output():
    assert is_source_code(CODE)
    assert is_source_code(b"#!/bin/bash\n#SBATCH --gpus=8\nsrun python train.py\n")
    assert not is_source_code(LOG)
    assert not is_source_code(b"+ cat train.py\n" + CODE + b"step 1 loss 2.0\n")
    assert not is_source_code(CODE + b'Traceback (most recent call last):\n  File "train.py", line 3\n')
    assert not is_source_code(b"import of settings done\nfrom cache import x\nepoch 1\n")
