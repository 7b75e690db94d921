"""The language of --query: what it finds, and that nothing in it is run."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import UsageError
from oomph.recording.store import Store
from oomph.recording.store.compare import matches
from oomph.recording.store.query import parse
from tests.recording_store.fakes import write_run


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_run(root, 0, name="good")
    write_run(root, 1, rows=8, fails_at=1, settings={"versions.torch": "2.10.0"})
    write_run(root, 2, settings={"versions.torch": "2.60.1", "arguments.note": 'it\'s "5" [x]?'}, name="a b")
    write_run(
        root,
        3,
        without=("environment.PYTORCH_CUDA_ALLOC_CONF",),
        tags={"team": "vision"},
        outcome="exception",
    )
    with Store([root]) as made:
        yield made


def numbers(store: Store, query: str) -> list[int]:
    """The numbers of the runs, oldest first."""
    return sorted(int(row.id.split("-")[1]) for row in store.rows(query))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        # Backward peaks: 8 GiB with 4 rows, 3 + 8 + 1 = 12 GiB with 8.
        ("phase.backward.peak > 9GiB", [1]),
        ("phase.backward.peak >= 8 GiB and phase.backward.peak < 9GiB", [0, 2, 3]),
        ("phase.backward.peak = 8589934592", [0, 2, 3]),
        ("phase.*.peak > 11GiB", [1]),
        ("outcome = oom", [1]),
        ("OUTCOME = OOM", []),
        ("outcome = OOM or outcome = exception", [1, 3]),
        ("outcome != completed", [1, 3]),
        ("not outcome = completed", [1, 3]),
        ("versions.torch ~ 2.6", [0, 3]),
        ("versions.torch !~ 2.6", [1, 2]),
        ("versions.torch > 2.9", [1, 2]),
        ("versions.torch < 2.10", [0, 3]),
        ("environment.PYTORCH_CUDA_ALLOC_CONF", [0, 1, 2]),
        ("not environment.PYTORCH_CUDA_ALLOC_CONF", [3]),
        ("environment.NOBODY_SET_IT != x", []),
        ("gpu.name ~ a100 and (name = good or tag.team = vision)", [0, 3]),
        ("name = 'a b'", [2]),
        ("arguments.note ~ '\"5\"'", [2]),
        ("arguments.n[o]te ~ 5", []),
        ("arguments.not? ~ 5", []),
        ("arguments.n*e ~ '[x]?'", [2]),
        ("world_size == 2 and steps >= 4", [0, 2, 3]),
        ("started >= 2026-11-18T12:05", [1, 2, 3]),
        ("failed.phase = backward and ooms > 0", [1]),
        ("retries = 0 and arguments.learning_rate < 1e-3", [0, 1, 2, 3]),
    ],
)
def test_what_it_finds(store, query, found):
    if query == "OUTCOME = OOM":
        with pytest.raises(UsageError, match="no run has a fact 'OUTCOME'"):
            store.rows(query)
    else:
        assert numbers(store, query) == found


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("outcome =", "expected a value after = at character 10, found the end"),
        ("(outcome = oom", "expected '\\)'"),
        ("outcome = oom outcome = x", "expected 'and', 'or' or the end at character 15"),
        ("= oom", "expected the name of a fact"),
        ("outcome = 'oom", "not understood from character 11"),
        ("(" * 60 + "a", "too many parentheses"),
        ("x" * 5000, "longer than"),
        ("phase.backwards.peak > 1", "did you mean phase.backward.peak"),
    ],
)
def test_what_it_refuses(store, query, says):
    with pytest.raises(UsageError, match=says):
        store.rows(query)


@pytest.mark.parametrize(
    "query",
    [
        "name = 'x'' OR 1=1 --'",
        'name = "\'; DROP TABLE runs; --"',
        "tag.'||(SELECT 1)||' = 1",
        "tag.a;DROP = 1",
        "tag.a) OR (1=1) = 1",
    ],
)
def test_nothing_in_it_is_run(store, query):
    before = len(store.rows())
    with suppress(UsageError):
        assert store.rows(query) == []
    assert len(store.rows()) == before == 4


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text):
    try:
        query = parse(text)
    except UsageError:
        return
    assert query.sql.count("?") == len(query.parameters)
    assert "'" not in query.sql


def test_versions_are_compared_as_versions():
    assert matches("2.10.0", None, ">", "2.9.1", None)
    assert matches("2.6.0+cu124", None, "<=", "2.6.0", None)
    assert not matches("12.6", None, "~", "2.6", 2.6)
    assert matches("torch 2.6.1", None, "~", "2.6", 2.6)
    assert matches("0.0001", 1e-4, "=", "1e-4", 1e-4)
    assert not matches(None, None, "!=", "x", None)
