from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import zipfile

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomph.errors import InputError
from oomph.evidence.sources import Limits, load

KIB = 1 << 10
LOG = (
    "epoch 1\n"
    "Traceback (most recent call last):\n"
    '  File "/w/train.py", line 7, in <module>\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"
)


def texts(document):
    return [line.text for line in document.lines]


def numbers(document):
    return [line.number for line in document.lines]


@pytest.mark.parametrize(
    "data",
    [
        LOG.encode(),
        LOG.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + LOG.encode(),
        gzip.compress(LOG.encode()),
        gzip.compress(gzip.compress(LOG.encode())),
        zstandard.ZstdCompressor().compress(LOG.encode()),
        ("\ufeff" + LOG).encode("utf-16-le"),
        ("\ufeff" + LOG.replace("\n", "\r\n")).encode("utf-16-be"),
        LOG.encode("utf-16-le"),
        gzip.compress(("\ufeff" + LOG).encode("utf-16-le")),
        LOG.replace("epoch 1", "epoch\x00\x00 1").encode(),
    ],
)
def test_one_log_in_many_wrappings(tmp_path, data):
    path = tmp_path / "nameless"
    path.write_bytes(data)
    [document] = load([path])
    assert texts(document) == LOG.rstrip("\n").split("\n")
    assert numbers(document) == [1, 2, 3, 4, 5]
    assert document.notes == ()
    assert document.gaps == ()
    assert document.source == str(path)


def test_invalid_bytes_are_replaced(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"loss \xff\xfe 1.0\n" + LOG.encode())
    assert texts(load([path])[0])[0] == "loss \ufffd\ufffd 1.0"


def test_standard_input(tmp_path):
    [document] = load(["-"], stdin=io.BytesIO(gzip.compress(LOG.encode())))
    assert document.source == "-"
    assert document.size_bytes == len(LOG)
    (tmp_path / "b.log").write_text("step 1\n")
    both = load([tmp_path / "b.log", "-", "-"], stdin=io.BytesIO(LOG.encode()))
    assert [document.index for document in both] == [0, 1]
    with pytest.raises(InputError, match="standard input is empty"):
        load(["-"], stdin=io.BytesIO())


def test_a_cut_gzip_says_so(tmp_path):
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(LOG.encode())[:-4])
    [document] = load([path])
    assert texts(document)[-1].startswith("torch.OutOfMemoryError")
    assert document.notes == ("the gzip stream is cut short: the text up to the cut was read",)


def test_a_gzip_without_a_byte_of_text_is_an_error(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(LOG.encode())[:12])
    with pytest.raises(InputError, match="cut short"):
        load([tmp_path / "a.gz"])


def checkpoint() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return out.getvalue()


SNAPSHOT = pickle.dumps({"segments": [], "device_traces": [[]]})
TAR = bytes(257) + b"ustar\x0000" + bytes(1000)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (checkpoint(), "zip archive"),
        (SNAPSHOT, "run `oomph snapshot` on that"),
        (TAR, "tar archive. Unpack it first"),
        (gzip.compress(TAR), "tar archive. Unpack it first"),
        (b"\xfd7zXZ\x00\x00", "compressed with xz. Unpack it first"),
        (gzip.compress(gzip.compress(gzip.compress(b"x"))), "more than twice"),
        (random.Random(3).randbytes(200_000), "binary data without readable text"),
        (b"\x00" * 5000, "binary data without readable text"),
    ],
)
def test_a_lone_input_without_text_is_one_sentence(tmp_path, data, says):
    path = tmp_path / "job.log"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        load([path])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_text_inside_binary_data_is_found(tmp_path):
    path = tmp_path / "core"
    randomly = random.Random(4)
    path.write_bytes(randomly.randbytes(300_000) + b"\n" + LOG.encode() + randomly.randbytes(300_000))
    [document] = load([path])
    assert any(line.endswith("Tried to allocate 20.00 MiB.") for line in texts(document))
    assert document.notes == ("mostly binary data: only the text around failures was read",)


def test_other_files_in_a_directory_are_passed_over_with_a_note(tmp_path):
    (tmp_path / "out.log").write_text(LOG)
    (tmp_path / "empty.log").touch()
    for name in ("a.pt", "b.pt", "c.pt", "d.pt"):
        (tmp_path / name).write_bytes(checkpoint())
    (tmp_path / "oom.pickle").write_bytes(SNAPSHOT)
    (tmp_path / "train.py").write_text("import a\nimport b\n\ndef main():\n    print('CUDA out of memory')\n")
    [document] = load([tmp_path])
    assert document.source.endswith("out.log")
    assert [note.partition(":")[0] for note in document.input_notes] == [
        "passed over, because not text",
        "passed over, because a memory snapshot (`oomph snapshot` reads it)",
        "passed over, because source code",
    ]
    assert document.input_notes[0].endswith("c.pt and 1 more")


def test_code_that_is_named_is_read(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import a\nimport b\n\ndef main():\n    pass\n")
    assert texts(load([path])[0])[0] == "import a"


def test_a_directory_in_which_nothing_can_be_read(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    with pytest.raises(InputError, match="all of them are empty"):
        load([tmp_path])
    (tmp_path / "c").write_bytes(checkpoint())
    with pytest.raises(InputError, match="not text"):
        load([tmp_path])


def test_a_tree_of_ranks(tmp_path):
    run = tmp_path / "none_x1" / "attempt_0"
    for rank in range(11):
        (run / str(rank)).mkdir(parents=True)
        (run / str(rank) / "stderr.log").write_text(LOG if rank == 10 else "terminated\n")
        (run / str(rank) / "stdout.log").touch()
    documents = load([tmp_path])
    assert [document.rank for document in documents] == list(range(11))
    assert {document.attempt for document in documents} == {0}
    assert {line.rank for line in documents[10].lines} == {10}


def test_two_nodes_with_prefixes(tmp_path):
    for node in range(2):
        for local in range(2):
            place = tmp_path / f"node{node}" / "attempt_0" / str(local)
            place.mkdir(parents=True)
            rank = 2 * node + local
            text = "".join(f"[rank{rank}]: {line}\n" for line in LOG.splitlines()) if local else "x\n"
            (place / "stderr.log").write_text(text)
    assert [document.rank for document in load([tmp_path])] == [0, 1, 2, 3]


def test_two_trees_without_prefixes_leave_the_ranks_open(tmp_path):
    for run in ("none_a", "none_b"):
        place = tmp_path / run / "attempt_0" / "0"
        place.mkdir(parents=True)
        (place / "stderr.log").write_text(LOG)
    documents = load([tmp_path])
    assert [document.rank for document in documents] == [None, None]
    assert documents[0].input_notes[0].startswith("several torchrun log trees have the same local ranks")


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        load(["-"])


def test_large_files_are_reduced_and_say_so(tmp_path):
    path = tmp_path / "big.log"
    noise = "".join(f"step {i} loss 1.0 mem 70.0GiB and some more words to fill it\n" for i in range(20_000))
    path.write_text(noise + LOG + noise)
    limits = Limits(whole=10 * KIB, head=4 * KIB, tail=4 * KIB, samples=4, shrink=8, chunk=256 * KIB)
    [document] = load([path], limits=limits)
    at = texts(document).index("Traceback (most recent call last):")
    assert document.lines[at].number == 20_002
    assert document.gaps
    assert document.size_bytes == 2 * len(noise) + len(LOG)
    [note] = document.input_notes
    assert note.startswith("of a large input, 0.1 of 2.4 MiB were read line by line")


@pytest.mark.parametrize("encode", [gzip.compress, lambda data: data.decode().encode("utf-16")])
def test_large_files_in_wrappings_give_the_same_lines(tmp_path, encode):
    noise = "".join(f"step {i} loss 1.0 mem 70.0GiB and some more words to fill it\n" for i in range(9_000))
    data = (noise + LOG + noise).encode()
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "wrapped").write_bytes(encode(data))
    limits = Limits(whole=10 * KIB, head=4 * KIB, tail=4 * KIB, samples=4, shrink=8, chunk=256 * KIB)
    plain, wrapped = (load([tmp_path / name], limits=limits)[0] for name in ("plain", "wrapped"))
    assert [(line.number, line.text) for line in plain.lines] == [
        (line.number, line.text) for line in wrapped.lines
    ]


def test_a_large_log_of_json_records(tmp_path):
    path = tmp_path / "docker.json"
    rows = [
        *(f"step {i} loss 1.0" for i in range(8000)),
        *LOG.splitlines(),
        *(f"step {i}" for i in range(8000)),
    ]
    path.write_text("".join(json.dumps({"log": row + "\n", "stream": "stdout"}) + "\n" for row in rows))
    limits = Limits(whole=10 * KIB, head=4 * KIB, tail=4 * KIB, samples=4, shrink=8, chunk=256 * KIB)
    [document] = load([path], limits=limits)
    at = texts(document).index("Traceback (most recent call last):")
    assert document.lines[at].number == 8002
    assert texts(document)[at + 3].startswith("torch.OutOfMemoryError: CUDA out of memory.")


def test_many_files_share_what_may_be_kept():
    limits = Limits(kept=6 << 20, all_files=28 << 20, head=2 * KIB)
    assert limits.next_file(0, 0, 1).kept == 6 << 20
    # Four times the fair share: 4 * 28 MiB / 1024 = 112 KiB.
    assert limits.next_file(0, 0, 1024).kept == 112 * KIB
    # Whatever the others took, a rank's traceback fits.
    assert limits.next_file(40 << 20, 1014, 1024).kept == 24 * KIB


def test_the_first_files_show_more_of_their_beginning():
    limits = Limits(head=2 * KIB)
    assert [limits.next_file(0, index, 1024).head for index in (0, 1, 2)] == [32 * KIB, 32 * KIB, 2 * KIB]
    assert Limits(head=0).next_file(0, 0, 1).head == 0


def test_progress_counts_the_bytes_of_all_files(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"step 1 loss 2\n" * 200_000)
    calls: list[tuple[int, int]] = []
    load([tmp_path], progress=lambda done, total: calls.append((done, total)))
    total = 3 * 14 * 200_000
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert 2 < len(calls) < 300


def test_one_line_of_ten_megabytes(tmp_path):
    path = tmp_path / "line"
    path.write_bytes(b"x" * 5_000_000 + LOG.splitlines()[-1].encode() + b"y" * 5_000_000)
    [document] = load([path])
    assert set(numbers(document)) == {1}
    assert any("Tried to allocate 20.00 MiB" in text for text in texts(document))


def attempt(paths, **options):
    """The documents, or the sentence of the only exception that may come."""
    try:
        return load(paths, **options), ""
    except InputError as error:
        return [], str(error)


TINY = Limits(whole=64, head=32, tail=32, samples=2, sample=16, shrink=64, chunk=4096)
PARTS = st.sampled_from(
    [
        LOG.encode(),
        b"\x00",
        b"\xff\xfe",
        b"\n",
        b"\r",
        b"{",
        b'{"message": "',
        b"PK\x03\x04",
        b"CUDA out of memory",
    ]
)


@given(data=st.lists(st.one_of(st.binary(max_size=300), PARTS), max_size=30).map(b"".join), gz=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("limits", [None, TINY])
def test_any_bytes_give_documents_or_one_sentence(tmp_path, limits, data, gz):
    path = tmp_path / "any"
    path.write_bytes(gzip.compress(data)[: len(data)] if gz else data)
    documents, said = attempt([path], limits=limits)
    assert "\n" not in said
    for document in documents:
        assert numbers(document) == sorted(numbers(document))
        assert all(line.number >= 1 and "\0" not in line.text for line in document.lines)


@given(
    st.binary(max_size=400), st.sampled_from([b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"])
)
def test_damaged_compressed_data_never_raises(data, magic):
    documents, said = attempt(["-"], stdin=io.BytesIO(magic + data))
    assert bool(documents) != bool(said)
