"""Where a cell's line stands in the notebook's file, however the JSON is laid out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampcheck.report.notebook_lines import lines_of
from tests.notebooks import notebook


def cell(source: object) -> dict[str, object]:
    return {"cell_type": "code", "source": source}


@pytest.mark.parametrize("indent", [0, 1, 4])
def test_each_line_is_found_where_it_stands(indent: int, tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    cells = ['a = "\\n"\nb = 2\n', "c = 3\n\nd = 4"]
    path.write_text(json.dumps(json.loads(notebook(*cells)), indent=indent))
    raw = path.read_text().splitlines()
    found = lines_of(str(path))
    for number, text in enumerate(cells, start=1):
        for line, code in enumerate(text.splitlines(), start=1):
            assert json.dumps(code)[1:-1] in raw[found[number, line] - 1]
    assert set(found) == {(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)}


def test_sources_in_one_string_and_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(
        '{"cells": [\n'
        '{"cell_type": "code", "source": "a\\nb"},\n'
        '{"cell_type": "code", "source": ["a\\n",\n"b",\n" = 1\\r\\n", "c"]}\n'
        '], "nbformat": 4}'
    )
    assert lines_of(str(path)) == {(1, 1): 2, (1, 2): 2, (2, 1): 3, (2, 2): 4, (2, 3): 5}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cells": 1}', '{"cells": [1, {}]}', '{"cells": [{"source": 1}]}']
)
def test_what_is_no_notebook_has_no_lines(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert lines_of(str(path)) == {}
    assert lines_of(str(tmp_path / "gone.ipynb")) == {}
