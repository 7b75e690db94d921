"""The recorded machines themselves: that there are enough, of every kind, and nothing of anybody's in them."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.diagnose.machine.fixtures import MACHINES, Fixture, fixtures

#: Every code that the doctor can answer with.
CODES = frozenset(
    f"ENV{number}"
    for numbers in (
        range(101, 109),
        range(201, 211),
        range(301, 304),
        range(401, 408),
        range(411, 415),
        range(421, 423),
        range(501, 507),
        (508,),
    )
    for number in numbers
)
SCRIPT_CODES = frozenset(f"SCR{number}" for number in range(101, 119))
SCRIPTS = ROOT / "tests" / "data" / "scripts"
KEYS = {
    "about",
    "source",
    "files",
    "findings",
    "notes",
    "may",
    "says",
    "never",
    "subjects",
    "untold",
    "not",
    "job",
}
FAULTY = [one for one in fixtures() if one.faulty]
CLEAN = [one for one in fixtures() if not one.faulty]


def scripts(kind: str) -> dict[str, list[dict[str, Any]]]:
    return dict(json.loads((SCRIPTS / kind / "expected.json").read_text(encoding="utf-8")))


def test_there_are_enough() -> None:
    assert len(FAULTY) >= 25
    assert len(CLEAN) >= 25
    assert len(scripts("faulty")) >= 30
    assert len(scripts("clean")) >= 25


def test_half_of_the_faulty_come_from_public_issues() -> None:
    rebuilt = [one.expected["source"] for one in FAULTY if one.expected["source"] != "written"]
    assert len(rebuilt) * 2 >= len(FAULTY)
    wrong = [source for source in rebuilt if not re.fullmatch(r"rebuilt from [\w.-]+/[\w.-]+#\d+", source)]
    assert not wrong
    assert len(set(rebuilt)) == len(rebuilt)


def test_every_code_has_a_faulty_machine() -> None:
    shown = frozenset().union(*(one.codes("findings") | one.codes("notes") for one in FAULTY))
    assert CODES - shown == frozenset()
    shown_by_scripts = {entry["code"] for entries in scripts("faulty").values() for entry in entries}
    assert shown_by_scripts == SCRIPT_CODES


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_a_folder_holds_what_it_says(fixture: Fixture) -> None:
    expected = fixture.expected
    assert set(expected) <= KEYS
    assert {path.name for path in fixture.folder.iterdir()} == set(expected["files"]) | {"expected.json"}
    assert expected["about"].endswith(".")
    codes = {
        code
        for key in ("findings", "notes", "may", "untold", "not", "says", "never", "subjects")
        for code in expected.get(key, ())
    }
    assert codes <= CODES
    assert set(expected.get("says", {})) <= fixture.codes("findings") | fixture.codes("notes")
    assert not fixture.codes("not") & fixture.codes("findings")
    if fixture.faulty:
        assert fixture.codes("findings") | fixture.codes("notes")
    else:
        assert not fixture.codes("findings")
        assert not fixture.codes("notes")


@pytest.mark.parametrize("kind", ["faulty", "clean"])
def test_scripts_are_all_listed(kind: str) -> None:
    listed = scripts(kind)
    assert {path.name for path in (SCRIPTS / kind).iterdir()} == set(listed) | {"expected.json"}
    for name, entries in listed.items():
        text = (SCRIPTS / kind / name).read_text(encoding="utf-8")
        if name.endswith(".py"):
            compile(text, name, "exec")
        lines = len(text.splitlines())
        assert bool(entries) == (kind == "faulty"), name
        for entry in entries:
            assert entry["code"] in SCRIPT_CODES, name
            assert 1 <= entry["line"] <= lines, name
            assert entry.get("fix", "none") in {"safe", "none"}, name


def test_nothing_of_anybody_is_in_them() -> None:
    files = [path for path in MACHINES.rglob("*") if path.is_file()]
    files += [path for path in SCRIPTS.rglob("*") if path.is_file()]
    wrong: list[str] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{path.relative_to(ROOT)}:{number}"
            if re.search(r"[\w.+-]+@[\w-]+\.\w{2,}", line):
                wrong.append(f"{where}: an address of a person")
            if re.search(
                r"hf_\w{20,}|ghp_\w{20,}|AKIA[0-9A-Z]{16}|-----BEGIN|(?i:password|secret|api_?key|access_token)\s*[=:]\s*\S{16,}",
                line,
            ):
                wrong.append(f"{where}: a secret")
            # A version of four parts looks like an address: cuDNN's begin below 21, and pip writes them behind "==".
            for match in re.finditer(
                r"(?<![\w.=-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", re.sub(r"==\S+", "", line)
            ):
                address = ipaddress.ip_address(match.group()) if valid(match.group()) else None
                if address is not None and address.is_global and address.packed[0] > 20:
                    wrong.append(f"{where}: a public address, {address}")
    assert not wrong, "\n".join(wrong)


def valid(text: str) -> bool:
    return all(int(part) < 256 and str(int(part)) == part for part in text.split("."))
