"""Pages to look at, and a browser to look with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ampcheck.cli import main

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

Write = Callable[..., str]


@pytest.fixture(scope="session")
def page(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one file with three faults and a right loop."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["audit", str(checkout / "fixtures" / "tour" / "plain_amp.py"), "--output", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip(f"{'Chromium' if binary is None else 'chromedriver'} is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    chrome.set_window_size(1280, 900)
    yield chrome
    chrome.quit()
