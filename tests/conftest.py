"""What every test may ask for: the checkout, and ampcheck as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no defect: no test is one of the clock.
settings.register_profile("ampcheck", deadline=None)
settings.load_profile("ampcheck")

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout under test."""
    return CHECKOUT


@pytest.fixture(scope="module")
def uncounted() -> Iterator[None]:
    """No measurement of coverage until the end of a module, nor in the processes that its tests start.

    For tests that run hundreds of programs through what others cover: the measurement takes twice as long as they.
    """
    here, in_threads = sys.gettrace(), threading.gettrace()
    with pytest.MonkeyPatch.context() as patch:
        # Coverage's `patch = ["subprocess"]` sets it.
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        sys.settrace(None)
        threading.settrace(None)
        yield
        threading.settrace(in_threads)
        sys.settrace(here)


@pytest.fixture
def ampcheck(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `ampcheck ARGUMENTS` in a process of its own, by default in an empty folder."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ampcheck", *arguments],
            cwd=cwd or tmp_path,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment},
            capture_output=True,
            encoding="utf-8",
            timeout=600,
        )

    return run
