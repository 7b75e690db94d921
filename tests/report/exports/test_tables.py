"""Events as CSV and as Parquet: the same table, read back by other readers."""

from __future__ import annotations

import csv
import pickle
import sys

import pytest

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.errors import UsageError
from oomph.evidence.snapshot import from_bytes
from oomph.report.exports import check_export, export
from oomph.report.exports.events_csv import cell
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, event, segment, snapshot
from tests.report.exports import story

COLUMNS = [
    *("position", "time_us", "kind", "address", "size_bytes", "stream", "pool", "phase", "category", "step"),
    *("allocated_bytes", "reserved_bytes", "stack", "place"),
]
#: Of the story, what is told by arithmetic: kind, address, bytes, allocated and reserved after it, place.
EXPECTED = [
    ("segment_alloc", BASE, 20 * MIB, 0, 20 * MIB, None),
    ("alloc", BASE, 4 * MIB, 4 * MIB, 20 * MIB, "forward /home/jane/model.py:12"),
    ("alloc", BASE + 4 * MIB, 6 * MIB, 10 * MIB, 20 * MIB, "loss /home/jane/loss.py:7"),
    ("free_requested", BASE, 4 * MIB, 6 * MIB, 20 * MIB, "forward /home/jane/model.py:12"),
    ("free_completed", BASE, 4 * MIB, 6 * MIB, 20 * MIB, "forward /home/jane/model.py:12"),
]
TOLD = ("kind", "address", "size_bytes", "allocated_bytes", "reserved_bytes", "place")


def as_csv(tmp_path, analysis, **options):
    """Rows as a strict reader sees them; integers where a cell looks like one, None where it is empty."""
    path = tmp_path / "events.csv"
    export(path, analysis, **options)
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream, strict=True)
    assert header == COLUMNS
    assert {len(row) for row in rows} <= {len(COLUMNS)}
    numbers = {"kind", "pool", "phase", "category", "place"}.isdisjoint
    return [
        {
            name: None if text == "" else int(text) if numbers([name]) else text
            for name, text in zip(header, row, strict=True)
        }
        for row in rows
    ]


def parquet():
    return pytest.importorskip("pyarrow.parquet", reason="pyarrow has no wheel for this platform")


def as_parquet(tmp_path, analysis, **options):
    reader = parquet()
    path = tmp_path / "events.parquet"
    export(path, analysis, **options)
    table = reader.read_table(path)
    assert table.column_names == COLUMNS
    return table.to_pylist()


both = pytest.mark.parametrize("rows_of", [as_csv, as_parquet])


@both
def test_every_event_with_what_is_known_of_it(tmp_path, rows_of):
    rows = rows_of(tmp_path, story.analysis())
    assert [tuple(row[name] for name in TOLD) for row in rows] == EXPECTED
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["time_us"] for row in rows] == [10, 20, 30, 40, 50]
    assert [row["pool"] for row in rows] == [None, "0_0", "0_0", "0_0", "0_0"]
    assert {row["stream"] for row in rows} == {0}


@both
def test_a_block_has_one_category_and_one_stack_from_its_birth_to_its_end(tmp_path, rows_of):
    rows = rows_of(tmp_path, story.analysis())
    assert rows[0]["category"] is None
    assert rows[0]["stack"] is None
    assert rows[1]["category"] == rows[3]["category"] == rows[4]["category"]
    assert rows[1]["stack"] == rows[3]["stack"] != rows[2]["stack"]


@both
def test_a_window(tmp_path, rows_of):
    rows = rows_of(tmp_path, story.analysis(), first=1, last=3)
    assert [tuple(row[name] for name in TOLD) for row in rows] == EXPECTED[1:3]
    assert [row["position"] for row in rows_of(tmp_path, story.analysis(), last=2)] == [0, 1]
    assert [row["position"] for row in rows_of(tmp_path, story.analysis(), first=4, last=999)] == [4]


@both
def test_a_window_without_events_is_refused(tmp_path, rows_of):
    with pytest.raises(UsageError, match="the trace has events 0 to 4"):
        rows_of(tmp_path, story.analysis(), first=3, last=3)
    with pytest.raises(UsageError, match="no history"):
        rows_of(tmp_path, story.analysis(device_traces=[[]]), first=0)


@both
def test_a_snapshot_without_history_has_no_rows(tmp_path, rows_of):
    assert rows_of(tmp_path, story.analysis(device_traces=[[]])) == []


@both
def test_steps_pools_and_streams(tmp_path, rows_of):
    trace = [
        event("alloc", BASE, 512, stream=7, pool_id=(0, 3)),
        event("alloc", BASE + 512, 512),
        event("oom", 0, 1 << 30, device_free=5),
    ]
    for one in trace:
        del one["time_us"]
    blocks = [block(BASE, 512), block(BASE + 512, 512), block(BASE + 1024, 2 * MIB - 1024, "inactive")]
    content = snapshot([segment(blocks=blocks)], [trace])
    rows = rows_of(tmp_path, Analysis(from_bytes(pickle.dumps(content), "x.pickle"), 0))
    assert [row["pool"] for row in rows] == ["0_3", "0_0", None]
    assert [row["stream"] for row in rows] == [7, 0, 0]
    assert [row["kind"] for row in rows] == ["alloc", "alloc", "oom"]
    assert [row["time_us"] for row in rows] == [None, None, None]
    assert [row["category"] is None for row in rows] == [False, False, True]


@both
@pytest.mark.parametrize("redact", [False, True])
def test_hostile_names(tmp_path, rows_of, redact):
    rows = rows_of(tmp_path, story.hostile(), redact=redact)
    assert len(rows) == 1 + len(story.HOSTILE)
    places = [row["place"] for row in rows[1:]]
    assert places[2].startswith("two lines two lines")
    assert not any(ord(character) < 32 for place in places for character in place)


def test_a_spreadsheet_runs_nothing(tmp_path):
    place = as_csv(tmp_path, story.hostile())[1]["place"]
    assert place.startswith("'=cmd|' /C calc'!A0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forward model.py:3", "forward model.py:3"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ('say "hi", twice', '"say ""hi"", twice"'),
        ("-a,b", '"\'-a,b"'),
        ("a\nb", '"a\nb"'),
        (" padded ", '" padded "'),
        ("", ""),
    ],
)
def test_cells(text, expected):
    assert cell(text) == expected


@both
def test_redacted(tmp_path, rows_of):
    rows = rows_of(tmp_path, story.analysis("/home/jane/run.pickle"), redact=True)
    assert rows[1]["place"] == "forward <path>/model.py:12"
    assert all("jane" not in (row["place"] or "") for row in rows)


def test_pieces_join_without_a_seam(tmp_path):
    """More events than the 65,536 that are formatted at once: 22,000 times the same 512 bytes come and go."""
    times = 22_000
    cycle = [
        event("alloc", BASE, 512),
        event("free_requested", BASE, 512),
        event("free_completed", BASE, 512),
    ]
    trace = [one for _ in range(times) for one in cycle]
    content = snapshot([segment()], [trace])
    rows = as_csv(tmp_path, Analysis(from_bytes(pickle.dumps(content), "x.pickle"), 0))
    assert [row["position"] for row in rows] == list(range(3 * times))
    assert [row["allocated_bytes"] for row in rows] == [512, 0, 0] * times


def test_parquet_keeps_numbers_as_numbers_and_text_once(tmp_path):
    reader = parquet()
    path = tmp_path / "events.parquet"
    export(path, story.analysis())
    schema = reader.read_schema(path)
    types = {field.name: str(field.type) for field in schema}
    assert {types[name] for name in ("position", "address", "size_bytes", "allocated_bytes")} == {"int64"}
    assert {types[name] for name in ("kind", "pool", "phase", "category", "place")} == {
        "dictionary<values=string, indices=int32, ordered=0>"
    }


def test_without_pyarrow_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "events.parquet"
    with pytest.raises(UsageError, match=r"pip install 'oomph\[parquet\]'"):
        export(path, story.analysis())
    with pytest.raises(UsageError, match="pyarrow, which is not installed"):
        check_export(path)
    assert list(tmp_path.iterdir()) == []
