"""The page in a real browser: what is drawn, in which colours, and who can read and reach it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ampcheck.cli import main

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CONTRAST = """
const channel = v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
const luminance = c => { const [r, g, b] = parse(c); return .2126*channel(r) + .7152*channel(g) + .0722*channel(b); };
const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x+.05)/(y+.05); };
const behind = node => {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (parse(colour).length === 3 || parse(colour)[3] > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
document.querySelectorAll('details').forEach(d => d.open = true);
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let text = walker.nextNode(); text; text = walker.nextNode()) {
  const node = text.parentElement;
  if (!text.data.trim() || node.closest('title') || node.closest('svg')) continue;
  found.push([text.data.trim().slice(0, 40), ratio(getComputedStyle(node).color, behind(node))]);
}
document.querySelectorAll('svg text').forEach(node => {
  const cell = node.closest('g') || node.parentElement;
  const ground = node.matches('.tagged') ? cell.querySelector('.tag') : cell.querySelector('.cell, .lane');
  found.push([node.textContent, ratio(getComputedStyle(node).fill, getComputedStyle(ground).fill)]);
});
document.querySelectorAll('svg g.event').forEach(g => {
  const [lane, cell] = [g.closest('svg').querySelector('.lane'), g.querySelector('.cell')];
  const edge = ratio(getComputedStyle(cell).stroke, getComputedStyle(lane).fill);
  found.push(['the edge of a cell', edge * 1.5]);
});
return found;
"""


def opened(browser: Chrome, page: Path, scheme: str = "light") -> Chrome:
    """The page in one colour scheme, freshly loaded."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(page.as_uri())
    return browser


def style(browser: Chrome, selector: str, name: str) -> Any:
    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    return browser.execute_script(script, selector, name)


def texts(browser: Chrome, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(n => n.textContent.trim())"
    found: list[str] = browser.execute_script(script, selector)
    return found


def test_the_timeline_tells_the_fault(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    mine = texts(browser, "#loop-1 .half:first-child svg .label")
    assert mine == ["zero_grad", "backward", "clip by norm", "scaler.step", "scaler.update"]
    right = texts(browser, "#loop-1 .half:nth-child(2) svg .label")
    assert right == ["backward", "unscale_", "clip by norm", "scaler.step", "scaler.update", "zero_grad"]
    assert texts(browser, "#loop-1 svg .wrong .tagged") == ["✗ AMP101"]
    assert texts(browser, "#loop-1 svg .wrong .text") == ["clipped at 1.0 / S"]
    assert texts(browser, "#loop-1 svg .wrong .place") == ["line 20"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_has_the_colour_of_its_unit_and_the_fault_its_own(
    browser: Chrome, page: Path, scheme: str
) -> None:
    opened(browser, page, scheme)
    wrong = "#loop-1 svg .wrong .cell"
    assert style(browser, wrong, "fill") == style(browser, ".swatch.scaled", "backgroundColor")
    assert style(browser, wrong, "stroke") == style(browser, ".swatch.wrong", "backgroundColor")
    clip = "#loop-1 .half:nth-child(2) svg .event:nth-of-type(3) .cell"
    assert style(browser, clip, "fill") == style(browser, ".swatch.true", "backgroundColor")
    assert style(browser, clip, "fill") != style(browser, wrong, "fill")


def test_colour_is_not_the_only_carrier(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    assert texts(browser, "#loop-1 svg .wrong .unit") == texts(browser, ".swatch.scaled") == ["× S"]
    assert texts(browser, "#loop-1 svg .wrong title") == ["clip by norm; clipped at 1.0 / S"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Chrome, page: Path, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 for text; 1.4.11: 3 to 1 for what marks a shape (× 1.5 in the script)."""
    opened(browser, page, scheme)
    found = browser.execute_script(CONTRAST)
    assert len(found) > 200
    assert [(text, round(ratio, 2)) for text, ratio in found if ratio < 4.5] == []


def test_light_and_dark_differ(browser: Chrome, page: Path) -> None:
    light = style(opened(browser, page, "light"), "body", "backgroundColor")
    assert light != style(opened(browser, page, "dark"), "body", "backgroundColor")


def test_nothing_is_loaded_and_nothing_complains(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return document.scripts.length") == 0


def test_the_keyboard_reaches_every_loop(browser: Chrome, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(browser, page)
    reached: set[str] = set()
    first = ""
    for _ in range(120):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        first = first or browser.execute_script("return document.activeElement.textContent")
        reached.add(browser.execute_script("return document.activeElement.closest('section.loop')?.id || ''"))
        visible = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert visible != "none"
        if "loop-4" in reached:
            break
    assert first == "Skip to the loops"
    assert {"loop-1", "loop-2", "loop-3", "loop-4"} <= reached


def test_a_summary_opens_by_the_keyboard(browser: Chrome, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(browser, page)
    summary = browser.find_element("css selector", "#loop-1 details summary")
    summary.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.querySelector('#loop-1 details').open")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_itself_never_scrolls_sideways(browser: Chrome, tmp_path: Path, width: int) -> None:
    folder = tmp_path / "a_folder_with_quite_a_long_name_that_no_narrow_window_holds_in_one_line"
    folder.mkdir()
    code = "def train(model, optimizer, batches):\n    for x in batches:\n        model(x).backward()\n"
    (folder / "train.py").write_text(code + "        optimizer.step()\n")
    page = tmp_path / "report.html"
    assert main(["audit", str(folder / "train.py"), "--output", str(page)]) == 0
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    opened(browser, page)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_print_opens_what_is_folded(browser: Chrome, page: Path) -> None:
    opened(browser, page)
    visible = "return document.querySelector('#loop-1 details table').checkVisibility()"
    assert not browser.execute_script(visible)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(visible)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
