"""The page in a real browser: it draws, answers the pointer and the keys, runs nothing else and asks for nothing.

The job and its numbers: made.py. Places on the canvas follow from them: 9 states (the start and 8 events) side by
side, heights to the scale that the page tells.
"""

from __future__ import annotations

import pytest

from oomph.units import format_bytes
from tests.report.snapshot.html.made import (
    FIRST,
    HOSTILE,
    MIB,
    job,
    long_job,
    page_of,
    two_devices,
    without_history,
)

#: The palette of Okabe and Ito, which people with any colour vision can tell apart; grey for unknown.
PALETTE = {
    "parameters": (0x00, 0x72, 0xB2),
    "gradients": (0xD5, 0x5E, 0x00),
    "optimizer state": (0x00, 0x9E, 0x73),
    "activations": (0x56, 0xB4, 0xE9),
    "temporaries": (0xF0, 0xE4, 0x42),
    "communication": (0xCC, 0x79, 0xA7),
    "workspace": (0xE6, 0x9F, 0x00),
    "unknown": (0x99, 0x99, 0x99),
}
PIXEL = """([canvas, x, y]) => {
  const element = document.getElementById(canvas), ratio = element.width / element.clientWidth;
  return [...element.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
}"""


def plot(opened):
    """The drawing's frame within its canvas: left, top, width, height, bytes that its height stands for."""
    return opened.page.evaluate(
        "() => { const t = oomph.timeline; return [t.left, t.top, t.plotWidth, t.plotHeight, t.high]; }"
    )


def spot(opened, state: float, mib: float, states: int = 9) -> tuple[float, float]:
    """Where in the canvas so many MiB of that state are."""
    left, top, width, height, ceiling = plot(opened)
    return left + width * (state + 0.5) / states, top + height * (1 - mib * MIB / ceiling)


def hover(opened, canvas: str, x: float, y: float) -> str:
    place = opened.page.locator(f"#{canvas}")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    opened.page.mouse.move(box["x"] + x, box["y"] + y)
    return opened.tip()


def until(opened, expression: str) -> None:
    """Waits for something to become true. (Playwright's own way evaluates text, which the page's policy forbids.)"""
    for _ in range(100):
        if opened.page.evaluate(expression):
            return
        opened.page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")


def near(colour, category: str) -> bool:
    """Whether a pixel has the category's colour, or its lighter or darker shade (a sixth towards white or black)."""
    shades = []
    for part, other in ((0.0, 0), (0.16, 255), (0.14, 0)):
        shades.append([value + (other - value) * part for value in PALETTE[category]])
    return any(all(abs(a - b) <= 2 for a, b in zip(colour[:3], shade, strict=True)) for shade in shades)


@pytest.fixture
def opened(open_page, tmp_path):
    return open_page(page_of(job(), tmp_path))


def test_it_draws_and_asks_for_nothing(opened):
    assert opened.requests == [opened.url]
    assert opened.complaints == []
    assert opened.page.evaluate("window.hacked") is None
    for canvas in ("timeline", "segments", "flame"):
        colours = opened.page.evaluate(
            """(id) => { const c = document.getElementById(id), found = new Set();
            const data = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
            for (const pixel of data) found.add(pixel); return found.size; }""",
            canvas,
        )
        assert colours > 3, canvas


def test_hovering_a_block_shows_its_stack_and_its_pixel_has_the_categorys_colour(opened):
    # After event 2 the weights alone are there: everything below 64 MiB is theirs.
    x, y = spot(opened, 3, 27)
    tip = hover(opened, "timeline-over", x, y)
    head = tip.splitlines()[0]
    assert head.startswith("64.00 MiB ")
    assert near(opened.page.evaluate(PIXEL, ["timeline", x, y]), head.removeprefix("64.00 MiB "))
    assert "load_weights   /home/marie/job/train.py:10" in tip
    assert "allocated at event 1 (10 µs), not freed within the trace" in tip
    assert "event 2 (1.00 ms): 64.00 MiB allocated of 104.00 MiB reserved" in tip
    assert "at::empty_cuda" in tip


def test_nothing_is_drawn_above_what_was_allocated(opened):
    assert hover(opened, "timeline-over", *spot(opened, 3, 66)).startswith(
        "event 2 (1.00 ms): 64.00 MiB allocated"
    )
    assert hover(opened, "timeline-over", *spot(opened, 4, 102)).splitlines()[0].startswith("40.00 MiB ")
    assert hover(opened, "timeline-over", *spot(opened, 4, 106)).startswith(
        "event 3 (1.01 ms): 104.00 MiB allocated"
    )
    assert hover(opened, "timeline-over", *spot(opened, 5, 66)).startswith(
        "event 4 (2.00 ms): 64.00 MiB allocated"
    )
    assert hover(opened, "timeline-over", *spot(opened, 0, 1)).startswith(
        "the start of the trace: 0 bytes allocated of"
    )


def test_a_hostile_name_is_text(opened):
    tip = hover(opened, "timeline-over", *spot(opened, 7, 92))
    assert HOSTILE in tip
    opened.page.mouse.down()
    opened.page.mouse.up()
    assert HOSTILE in opened.page.locator("#timeline-kept").inner_text()
    assert HOSTILE in opened.page.locator("main").inner_text()
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img, svg[onload], script[src]").count() == 0
    assert opened.complaints == []


def test_a_click_keeps_the_whole_stack_and_leaving_hides_the_box(opened):
    hover(opened, "timeline-over", *spot(opened, 3, 27))
    opened.page.mouse.down()
    opened.page.mouse.up()
    assert "main   /home/marie/job/train.py:5" in opened.page.locator("#timeline-kept").inner_text()
    opened.page.mouse.move(2, 2)
    assert opened.tip() == ""


def test_dragging_zooms_and_a_double_click_shows_all(opened):
    left, top, width, _, _ = plot(opened)
    box = opened.page.locator("#timeline-over").bounding_box()
    opened.page.mouse.move(box["x"] + left, box["y"] + top + 50)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + left + width * 8.5 / 9, box["y"] + top + 50, steps=4)
    opened.page.mouse.up()
    view = "[oomph.timeline.from, oomph.timeline.to]"
    assert opened.page.evaluate(view) == pytest.approx([0, 8.5], abs=0.05)
    opened.page.mouse.dblclick(box["x"] + left + 100, box["y"] + top + 50)
    assert opened.page.evaluate(view) == [0, 9]


def test_the_wheel_zooms_in_and_does_not_trap_the_page(open_page, tmp_path):
    opened = open_page(page_of(long_job(400), tmp_path))
    hover(opened, "timeline-over", 600, 200)
    opened.page.mouse.wheel(0, -100)
    until(opened, "oomph.timeline.to - oomph.timeline.from < oomph.timeline.states")
    assert opened.page.evaluate("scrollY") == 0
    opened.page.click("#zoom-reset")
    opened.page.mouse.move(600, 500)
    opened.page.mouse.wheel(0, 300)
    until(opened, "scrollY > 0")


def test_small_blocks_are_drawn_when_the_drawing_is_made_taller(opened):
    # From 64 to 104 MiB over the whole height, after event 3: the block of 40 MiB alone.
    opened.page.evaluate(f"oomph.timeline.showBytes({64 * MIB}, {104 * MIB})")
    left, top, width, height, _ = plot(opened)
    for part in (0.02, 0.5, 0.98):
        tip = hover(opened, "timeline-over", left + width * 4.5 / 9, top + height * part)
        assert tip.splitlines()[0].startswith("40.00 MiB ")
    opened.page.keyboard.down("Shift")
    opened.page.mouse.wheel(0, -100)
    opened.page.keyboard.up("Shift")
    until(opened, f"oomph.timeline.high - oomph.timeline.low < {40 * MIB}")
    opened.page.click("#zoom-reset")
    assert opened.page.evaluate("[oomph.timeline.low, oomph.timeline.high > 104 * 2 ** 20]") == [0, True]


def test_keys_walk_through_the_timeline(opened):
    opened.page.focus("#timeline-over")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp"):
        opened.page.keyboard.press(key)
    assert "allocated of" in opened.tip()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#timeline-kept").is_visible()
    opened.page.keyboard.press("Escape")
    assert opened.tip() == ""


def test_by_time(opened):
    opened.page.check("#by-time")
    # Event 3 comes 1,010 us, event 4 2,000 us after the first, and the last 9,000: at 1,500 us, 104 MiB are there.
    left, top, width, height, ceiling = plot(opened)
    tip = hover(opened, "timeline-over", left + width * 1500 / 9001, top + height * (1 - 102 * MIB / ceiling))
    assert tip.splitlines()[0].startswith("40.00 MiB ")


def test_no_peak_vanishes_however_long_the_trace(open_page, tmp_path):
    opened = open_page(page_of(long_job(60_000), tmp_path, at="start"))
    # Once 64 + 40 + 39 MiB live together, for one event of 60,000 on some 1,100 columns.
    assert (
        opened.page.evaluate("Math.max(...oomph.timeline.bucket.map((b) => oomph.timeline.total[b]))")
        == 143 * MIB
    )
    column = opened.page.evaluate(
        f"oomph.timeline.bucket.findIndex((b) => oomph.timeline.total[b] === {143 * MIB})"
    )
    left, top, _, height, ceiling = plot(opened)
    y = top + height * (1 - 142 * MIB / ceiling)
    pixel = opened.page.evaluate(PIXEL, ["timeline", left + column + 0.5, y])
    assert any(near(pixel, category) for category in PALETTE)


def test_the_segment_map_shows_blocks_and_holes(opened):
    tips = []
    for key in ("ArrowRight",) * 3:
        opened.page.focus("#segments")
        opened.page.keyboard.press(key)
        tips.append(opened.page.locator("#segments-kept").inner_text())
    # The segment with the larger hole comes first.
    assert tips[0].startswith("30.00 MiB ")
    assert HOSTILE in tips[0]
    assert tips[1].startswith("hole of 10.00 MiB\nthe largest hole that the request may use")
    assert tips[2].startswith("64.00 MiB ")
    assert f"of a segment of 64.00 MiB at {hex(FIRST)}" in tips[2]
    assert "load_weights" in tips[2]
    # The pointer finds the same block where the map begins.
    top = opened.page.evaluate("oomph.segments.tops[0]")
    tip = hover(opened, "segments", 20, top + 8)
    assert tip.splitlines()[0] == tips[0].splitlines()[0]
    category = tip.splitlines()[0].removeprefix("30.00 MiB ")
    assert near(opened.page.evaluate(PIXEL, ["segments", 20, top + 8]), category)


def test_the_request_stands_above_the_map_to_the_same_scale(open_page, tmp_path):
    made = job()
    made["device_traces"][0][-1]["size"] = 12 * MIB
    opened = open_page(page_of(made, tmp_path))
    # 12 MiB were asked for, 30 are in the first block.
    request = opened.page.evaluate("oomph.segments.request.reduce((sum, row) => sum + row[1], 0)")
    first = opened.page.evaluate("oomph.segments.owner.filter((piece) => piece === 0).length")
    assert request / first == pytest.approx(12 / 30, rel=0.01)
    assert opened.page.evaluate("oomph.segments.heads[0][1]").endswith("to the same scale: 12.00 MiB")


def test_the_flame_graph_zooms_and_finds(opened):
    level = 19
    tip = hover(opened, "flame", 300, level * 0.5)
    assert tip.startswith("all that was alive: 94.00 MiB")
    assert hover(opened, "flame", 300, level * 1.5).startswith("main\n")
    assert hover(opened, "flame", 100, level * 2.5).startswith(
        "load_weights\n/home/marie/job/train.py:10\n64.00 MiB in 1 block"
    )
    opened.page.mouse.down()
    opened.page.mouse.up()
    width = opened.page.evaluate("document.getElementById('flame').clientWidth")
    # Zoomed in, the clicked frame is as wide as the drawing; its kept text says what called it.
    assert hover(opened, "flame", width - 20, level * 2.5).startswith("load_weights\n")
    assert "called from\nmain   /home/marie/job/train.py:5" in opened.page.locator("#flame-kept").inner_text()
    opened.page.click("#flame-reset")
    assert not hover(opened, "flame", width - 20, level * 2.5).startswith("load_weights\n")
    opened.page.fill("#flame-search", "WEIGHTS")
    assert (
        opened.page.locator("#flame-found").inner_text()
        == "64.00 MiB of 94.00 MiB allocated below matching frames"
    )
    opened.page.fill("#flame-search", "nothing of this name")
    assert opened.page.locator("#flame-found").inner_text() == "no frame matches"


def test_frames_of_cpp_are_shown_when_asked_for(opened):
    names = "[...oomph.flame.root.children.values()][0].children.size"
    assert (
        opened.page.evaluate("oomph.flame.boxes.some(([n]) => oomph.flame.label(n).includes('empty_cuda'))")
        is False
    )
    opened.page.check("#flame-native")
    assert (
        opened.page.evaluate("oomph.flame.boxes.some(([n]) => oomph.flame.label(n).includes('empty_cuda'))")
        is True
    )
    assert opened.page.evaluate(names) == 2


def test_another_device_can_be_chosen(open_page, tmp_path):
    opened = open_page(page_of(two_devices(), tmp_path))
    assert opened.page.locator('[data-device="1"]').is_hidden()
    opened.page.select_option("#device", label="GPU 1")
    assert opened.page.locator('[data-device="1"]').is_visible()
    assert opened.page.locator('[data-device="0"]').is_hidden()
    # Two events, three states, 12 MiB after the last of them.
    assert (
        hover(opened, "timeline-over", *spot(opened, 2, 6, states=3)).splitlines()[0].startswith("12.00 MiB ")
    )
    assert opened.complaints == []


def test_without_history_there_is_the_map_and_the_flame_graph(open_page, tmp_path):
    opened = open_page(page_of(without_history(), tmp_path))
    assert opened.page.locator("#timeline-part").is_hidden()
    assert hover(opened, "flame", 300, 8).startswith("all that was alive: 94.00 MiB")
    assert opened.page.locator("#segments").is_visible()
    assert opened.complaints == []


def test_without_scripts_the_answer_is_there(open_page, tmp_path):
    opened = open_page(page_of(job(), tmp_path), ready=False, java_script_enabled=False)
    text = opened.page.locator("body").inner_text()
    assert "Without scripts there are no drawings" in text
    assert "100.00 MiB" in text
    assert "Stacks that hold the most" in text
    assert opened.page.locator("#drawings").is_hidden()


def test_dark_and_light(open_page, tmp_path):
    paper = "getComputedStyle(document.body).backgroundColor"
    page = page_of(job(), tmp_path)
    assert open_page(page, color_scheme="light").page.evaluate(paper) == "rgb(255, 255, 255)"
    dark = open_page(page, color_scheme="dark")
    red, green, blue = dark.page.evaluate(f"{paper}.match(/[0-9]+/g).map(Number)")
    assert max(red, green, blue) < 64
    x, y = spot(dark, 3, 27)
    category = hover(dark, "timeline-over", x, y).splitlines()[0].removeprefix("64.00 MiB ")
    assert near(dark.page.evaluate(PIXEL, ["timeline", x, y]), category)


@pytest.mark.parametrize("sharpness", [1.5, 2, 3])
def test_sharp_screens(open_page, tmp_path, sharpness):
    opened = open_page(page_of(job(), tmp_path), device_scale_factor=sharpness)
    x, y = spot(opened, 3, 27)
    head = hover(opened, "timeline-over", x, y).splitlines()[0]
    assert head.startswith("64.00 MiB ")
    assert near(opened.page.evaluate(PIXEL, ["timeline", x, y]), head.removeprefix("64.00 MiB "))
    assert hover(opened, "timeline-over", *spot(opened, 4, 102)).startswith("40.00 MiB ")


def test_a_tap_shows_the_stack(open_page, tmp_path):
    opened = open_page(page_of(job(), tmp_path), has_touch=True)
    x, y = spot(opened, 3, 27)
    box = opened.page.locator("#timeline-over").bounding_box()
    opened.page.touchscreen.tap(box["x"] + x, box["y"] + y)
    assert "load_weights   /home/marie/job/train.py:10" in opened.page.locator("#timeline-kept").inner_text()


def test_sizes_read_as_everywhere_in_oomph(opened):
    sizes = [
        0,
        1,
        512,
        1024,
        1025,
        1536,
        1152,
        MIB - 512,
        MIB,
        1_179_648,
        1_187_840,
        1 << 30,
        (1 << 30) + 512,
        10**11,
    ]
    sizes += [512 * number for number in range(1, 400_000, 997)]
    assert opened.page.evaluate("(sizes) => sizes.map(oomph.size)", sizes) == [
        format_bytes(size) for size in sizes
    ]


def test_a_narrow_screen_does_not_scroll_sideways(open_page, tmp_path):
    opened = open_page(page_of(job(), tmp_path))
    opened.page.set_viewport_size({"width": 420, "height": 800})
    until(opened, "document.getElementById('timeline').clientWidth < 420")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= 420")
