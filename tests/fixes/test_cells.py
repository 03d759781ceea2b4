"""Notebooks: the sources of the cells change, the rest of the JSON stays byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcheck.fixes.cells import with_sources

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


def changed(data: bytes, cell: int, new: str) -> bytes:
    return with_sources(data, lambda number, source: new if number == cell else source)


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_only_the_source_changes(indent: int | None, ascii_only: bool) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "source": ["# größer\n", "text"], "metadata": {"b": 1, "a": 2}},
        {"cell_type": "code", "source": ["x = 'ä'\n", "y = 2\n", "z = 3"], "outputs": [{"data": "…"}]},
    ]
    notebook = {"nbformat": 4, "cells": cells, "metadata": {"z": {}, "a": []}}
    data = json.dumps(notebook, indent=indent, ensure_ascii=ascii_only).encode() + b"\n"
    cells[1]["source"] = ["x = 'ä'\n", "new = 'ö'\n", "y = 2\n", "z = 3"]
    expected = json.dumps(notebook, indent=indent, ensure_ascii=ascii_only).encode() + b"\n"
    assert changed(data, 2, "x = 'ä'\nnew = 'ö'\ny = 2\nz = 3") == expected


def test_a_source_that_is_one_string_stays_one() -> None:
    data = b'{"cells": [{"source" : "a = 1\\nb = 2"}], "x":1.0}'
    assert changed(data, 1, "a = 1\nc\nb = 2") == b'{"cells": [{"source" : "a = 1\\nc\\nb = 2"}], "x":1.0}'


def test_the_third_format_has_worksheets_and_inputs() -> None:
    data = b'{"worksheets": [{"cells": [{"input": ["a\\n", "b"]}, {"text": "no source"}]}], "nbformat": 3}'
    assert changed(data, 1, "a\nc\nb") == data.replace(b'"b"', b'"c\\n", "b"')


@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_whatever_the_texts(sources: list[str], data: st.DataObject) -> None:
    number = data.draw(st.integers(1, len(sources)))
    new = data.draw(TEXTS.filter(bool))
    as_list = data.draw(st.booleans())
    cells: list[dict[str, Any]] = [
        {"source": source.splitlines(keepends=True) if as_list else source, "metadata": {"source": "no"}}
        for source in sources
    ]
    stored = json.dumps({"cells": cells}, indent=data.draw(st.sampled_from([None, 1]))).encode()
    found = json.loads(changed(stored, number, new))["cells"]
    assert ["".join(cell["source"]) for cell in found] == [
        new if n == number else source for n, source in enumerate(sources, 1)
    ]
    assert isinstance(found[number - 1]["source"], list) == as_list
