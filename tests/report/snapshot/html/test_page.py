"""The page as text: what is in it, what is not, and that nothing in it can run but its own script."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from oomph.diagnose.snapshot.model import DeviceReport, Moment
from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, BlockState, SegmentState
from oomph.memory.ledger import Ledger
from oomph.memory.stacks import Stacks
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html_segments import segment_data
from oomph.report.snapshot.html_stacks import LEFT_OUT, MOST_NODES, NO_STACK, StackTree
from tests.report.snapshot.html.made import (
    HOSTILE,
    MIB,
    data_of,
    job,
    page_of,
    two_devices,
    without_history,
)


class Elements(HTMLParser):
    """Every element with its attributes, and the text of scripts and style sheets by element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data):
        if self._open in self.inside:
            self.inside[self._open].append(data)

    def handle_endtag(self, tag):
        self._open = ""


def test_nothing_runs_but_the_pages_own_script(tmp_path):
    page = page_of(job(), tmp_path, name="<img src=x onerror=alert(1)>.pickle")
    found = Elements(page)
    names = [name for name, _ in found.elements]
    assert names.count("script") == 2
    assert not {"img", "iframe", "object", "embed", "base", "form"} & set(names)
    for name, attributes in found.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("style", "srcdoc")], name
        assert not [value for key, value in attributes.items() if key in ("src", "action") and value], name
        if "href" in attributes:
            assert attributes["href"] == "data:,"
    assert not re.search(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/", page)


def test_the_policy_names_script_and_style_by_their_hashes_and_allows_nothing_else(tmp_path):
    found = Elements(page_of(job(), tmp_path))
    policy = next(
        attributes["content"]
        for name, attributes in found.elements
        if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    data, script = found.inside["script"]
    style = found.inside["style"][0]

    def source(text):
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    parts = [part.strip().partition(" ") for part in str(policy).split(";")]
    assert {name: value for name, _, value in parts} == {
        "default-src": "'none'",
        "script-src": source(script),
        "style-src": source(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)


def test_the_answer_is_in_the_text(tmp_path):
    page = page_of(job(), tmp_path)
    text = re.sub(r"<[^>]*>", " ", page)
    # 100 MiB were asked for, 94 allocated, 10 free in one hole, 50 free on the device.
    assert "a request of 100.00 MiB failed" in text
    for size in ("94.00 MiB", "10.00 MiB", "50.00 MiB", "64.00 MiB", "30.00 MiB"):
        assert size in text, size
    assert "backend:native" in text
    assert "&lt;/script&gt;&lt;script&gt;window.hacked=1" in page
    assert HOSTILE not in page


def test_what_is_drawn_is_what_was_recorded(tmp_path):
    (device,) = data_of(page_of(job(), tmp_path))["devices"]
    curves = device["curves"]
    total = [0] * 9
    for row in curves["categories"]:
        value = 0
        for state, change in enumerate(row):
            value += change
            total[state] += value
    assert [value // MIB for value in total] == [0, 0, 64, 64, 104, 64, 64, 94, 94]
    assert curves["starts"] == [0, *[1] * 8]
    assert curves["time"] == [0, 0, 10, 990, 10, 990, 1, 999, 6000]
    assert device["moment"]["position"] == 7
    assert device["capacity"] == (104 + 50) * MIB
    assert device["blocks"]["bytes"] == [64 * MIB, 40 * MIB, 30 * MIB]
    assert device["blocks"]["life"] == [-1, 1, -1]
    assert sorted(device["alive"]["bytes"]) == [30 * MIB, 64 * MIB]


def test_the_same_snapshot_gives_the_same_page(tmp_path):
    assert page_of(job(), tmp_path) == page_of(job(), tmp_path)


def test_redaction_holds_in_the_drawings_too(tmp_path):
    page = page_of(job(), tmp_path, name="marie.pickle", options=ReportOptions(redact=True))
    drawn = json.dumps(data_of(page), ensure_ascii=False)
    assert "marie" not in page
    assert "marie" not in drawn
    assert "load_weights" in drawn
    strings = data_of(page)["devices"][0]["stacks"]["strings"]
    place = next(text for text in strings if text.endswith("train.py"))
    assert place.startswith("<path")
    # One name, one placeholder: in the tables too.
    assert place.replace("<", "&lt;").replace(">", "&gt;") in page


def test_every_device_and_none_without_history(tmp_path):
    devices = data_of(page_of(two_devices(), tmp_path))["devices"]
    assert [device["index"] for device in devices] == [0, 1]
    assert [sum(device["segments"]["segments"]["bytes"]) // MIB for device in devices] == [104, 20]
    (device,) = data_of(page_of(without_history(), tmp_path))["devices"]
    assert "curves" not in device
    assert sum(device["alive"]["bytes"]) == 94 * MIB


def test_an_empty_snapshot_is_a_page(tmp_path):
    page = page_of({"segments": [], "device_traces": []}, tmp_path)
    assert data_of(page) == {"devices": []}
    assert "</html>" in page


def test_pieces_are_folded_where_there_are_too_many():
    # 1,000 blocks of 1 KiB between two of 1 MiB, then a hole.
    blocks = [BlockState(0, MIB, MIB, ALLOCATED)]
    blocks += [BlockState(MIB + 1024 * number, 1024, 1000, ALLOCATED) for number in range(1000)]
    blocks.append(BlockState(MIB + 1024 * 1000, MIB, MIB, ALLOCATED))
    blocks.append(BlockState(2 * MIB + 1024 * 1000, MIB, 0, INACTIVE))
    segment = SegmentState(0, 3 * MIB + 1024 * 1000, 0, (0, 0), False, False, blocks)
    device = DeviceReport(0, 0, Moment("end", -1, 0), Ledger(), (), (), ())
    data, stacks = segment_data([segment], {}, device, 7, most=100)
    pieces = data["pieces"]
    assert isinstance(pieces, dict)
    assert pieces["bytes"] == [MIB, 1024 * 1000, MIB, MIB]
    assert pieces["count"] == [1, 1000, 1, 1]
    assert pieces["requested"][1] == 1000 * 1000
    assert pieces["category"] == [7, 7, 7, -1]
    assert len(stacks) == 4
    whole, _ = segment_data([segment], {}, device, 7)
    assert isinstance(whole["pieces"], dict)
    assert len(whole["pieces"]["bytes"]) == 1003


def test_the_tree_shares_what_stacks_share_and_has_an_end():
    stacks = Stacks()
    outer, inner, other = (
        {"name": name, "filename": "a.py", "line": 1} for name in ("outer", "inner", "other")
    )
    first, second = stacks.number([inner, outer]), stacks.number([other, outer])
    tree = StackTree(stacks)
    assert tree.node(-1) == NO_STACK
    assert (tree.node(first), tree.node(second)) == (1, 2)
    assert tree.data(lambda frame: frame)["parents"] == [-1, 0, 0]
    deep = [{"name": f"f{number}", "filename": "a.py", "line": 1} for number in range(500)]
    nodes = []
    for number in range(MOST_NODES // 500 + 2):
        last = {"name": f"root{number}", "filename": "a.py", "line": 1}
        nodes.append(tree.node(stacks.number([*deep[:499], last])))
    assert nodes[0] >= 0
    assert nodes[-1] == LEFT_OUT
