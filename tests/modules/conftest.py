"""Projects of a few small files, written for one test."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ampcheck import imports

Grow = Callable[..., Path]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What one test learned of the disk is not true of the next."""
    imports.forget()
    yield
    imports.forget()


@pytest.fixture
def grow(tmp_path: Path) -> Grow:
    """Write files by their paths into a folder with a project's marker; returns the folder."""

    def write(files: dict[str, str], *, marker: bool = True) -> Path:
        if marker:
            (tmp_path / "pyproject.toml").touch()
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"))
        return tmp_path

    return write
