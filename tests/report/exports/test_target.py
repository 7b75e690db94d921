"""Where an export goes: whole or not at all, never over the snapshot, and to an ending that is known."""

from __future__ import annotations

import pickle

import pytest

from oomph.errors import UsageError
from oomph.report.exports import ENDINGS, check_export, ending_of, export
from oomph.report.exports.target import replacing
from tests.report.exports import story


def test_an_unknown_ending_lists_the_known_ones(tmp_path):
    for name in ("events.xlsx", "events", "csv", "alive.json"):
        with pytest.raises(UsageError, match=r"\.speedscope\.json .*, \.csv .*, \.parquet .*, \.pickle"):
            export(tmp_path / name, story.analysis())
    assert list(tmp_path.iterdir()) == []


def test_endings_are_read_in_any_case():
    assert [ending_of(f"Run{ending.upper()}") for ending in ENDINGS] == list(ENDINGS)


@pytest.mark.parametrize("ending", ENDINGS)
def test_never_over_the_snapshot(tmp_path, ending):
    source = tmp_path / f"run{ending}"
    source.write_bytes(pickle.dumps(story.content()))
    before = source.read_bytes()
    link = tmp_path / f"link{ending}"
    link.symlink_to(source)
    for path in (source, link):
        with pytest.raises(UsageError, match="is the snapshot that is being read"):
            export(path, story.analysis(str(source)))
    assert source.read_bytes() == before


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path, ending):
    target = tmp_path / f"out{ending}"
    target.write_text("old")
    target.chmod(0o600)
    export(target, story.analysis())
    assert target.read_bytes() != b"old"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_goes_on_pointing_where_it_did(tmp_path):
    target, link = tmp_path / "real.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    export(link, story.analysis())
    assert link.is_symlink()
    assert target.read_text().startswith("position,")


def test_folders_and_missing_folders_are_refused(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(UsageError, match="not a regular file"):
        check_export(tmp_path / "a.csv")
    with pytest.raises(UsageError, match="does not exist"):
        check_export(tmp_path / "no" / "a.csv")
    for name in ("a\0.csv", f"{'a' * 5000}.csv"):
        with pytest.raises(UsageError, match="cannot be written"):
            check_export(tmp_path / name)


def test_what_fails_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")

    def fails():
        with replacing(target) as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_the_file_system_refuses_is_a_sentence(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: No space left"), replacing(tmp_path / "out.csv"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
