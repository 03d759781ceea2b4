"""Whatever stands in a file called `.ipynb`, checking it does not fail: it is analysed or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcheck.check import Options, check_paths
from ampcheck.magics import without_magics
from ampcheck.report import FORMATS
from ampcheck.report.line import plain
from tests.expectations import fixture_files
from tests.robustness.test_mutated_fixtures import ALL_LINES, BRIEFLY

pytestmark = pytest.mark.usefixtures("uncounted")

NOTEBOOKS = [json.loads(path.read_bytes()) for path in fixture_files("notebooks")]
KEYS = (
    "cells",
    "worksheets",
    "cell_type",
    "source",
    "input",
    "metadata",
    "language_info",
    "kernelspec",
    "name",
)
# What has a line for each finding says nothing where there is none.
SILENT = ("json-lines", "github")
WORDS = ("code", "markdown", "python", "loss.backward()", "%%time\n", "!ls", "\ud800", "\x00", "", "backward")

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
lines = st.sampled_from(
    [*ALL_LINES, "%time x\n", "x = !ls\n", "%%bash\n", "y?\n", "'''\n", "f(\n", "\\\n", "% 3)\n"]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


def check(folder: Path, data: bytes) -> None:
    path = folder / "train.ipynb"
    path.write_bytes(data)
    report = check_paths([str(path)], options=Options(possible=True))
    assert not [finding.message for finding in report.findings if finding.code == "AMP903"]
    for name, form in FORMATS.items():
        shown = [plain(line) for line in form(report)]
        assert shown or (name in SILENT and not report.findings)


def replaced(value: Any, place: int, new: Any) -> Any:
    """A copy in which the value number `place`, counted through the whole tree, is another."""
    left = [place]

    def visit(node: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            return new
        if isinstance(node, dict):
            return {key: visit(inner) for key, inner in node.items()}
        return [visit(inner) for inner in node] if isinstance(node, list) else node

    return visit(value)


@BRIEFLY
@given(notebook=st.sampled_from(NOTEBOOKS), place=st.integers(0, 80), new=junk)
def test_a_value_is_another(folder: Path, notebook: Any, place: int, new: Any) -> None:
    check(folder, json.dumps(replaced(notebook, place, new)).encode())


@BRIEFLY
@given(value=junk)
def test_any_json(folder: Path, value: Any) -> None:
    check(folder, json.dumps({"cells": value, "backward": value}).encode())


@BRIEFLY
@given(notebook=st.sampled_from(NOTEBOOKS), end=st.integers(0, 4000), tail=st.binary(max_size=3))
def test_the_rest_is_missing(folder: Path, notebook: Any, end: int, tail: bytes) -> None:
    check(folder, json.dumps(notebook).encode()[:end] + tail)


@settings(BRIEFLY, max_examples=80)
@given(cells=st.lists(st.lists(lines, max_size=6), min_size=1, max_size=5))
def test_cells_of_any_lines(folder: Path, cells: list[list[str]]) -> None:
    check(
        folder, json.dumps({"cells": [{"cell_type": "code", "source": source} for source in cells]}).encode()
    )


@settings(BRIEFLY, max_examples=300)
@given(text=st.text(st.sampled_from("%!?=,;/'\"\\\n ()[]#xf "), max_size=30))
def test_magics_keep_the_number_of_lines(text: str) -> None:
    assert [line.original for line in without_magics(text)] == text.split("\n")
