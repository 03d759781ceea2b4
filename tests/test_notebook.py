"""Notebooks: cells become one module, findings lead back to cells, and what is no notebook is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ampcheck.check import Options, check_paths, traces_of
from ampcheck.events import Site
from ampcheck.finding import Report
from ampcheck.report import FORMATS
from ampcheck.report.line import plain
from ampcheck.source import Unreadable, decode
from tests.notebooks import notebook

LOOP = """\
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
SETUP = """\
import torch
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")"""
PROSE = {"cell_type": "markdown", "metadata": {}, "source": "`loss.backward()`"}


def check(folder: Path, data: bytes) -> Report:
    path = folder / "train.ipynb"
    path.write_bytes(data)
    return check_paths([str(path)])


def shown(report: Report, form: str) -> list[str]:
    return [plain(line) for line in FORMATS[form](report)]


def places(report: Report) -> list[tuple[int, int, str]]:
    found = json.loads("".join(shown(report, "json")))["findings"]
    return [(f["cell"], f["line"], f["code"]) for f in found]


# --- places -----------------------------------------------------------------------------------------------------


def test_a_finding_is_placed_by_cell_and_line(tmp_path: Path) -> None:
    report = check(tmp_path, notebook(PROSE, SETUP, "%%time\n" + LOOP))
    (found,) = json.loads("".join(shown(report, "json")))["findings"]
    assert (found["cell"], found["line"], found["column"]) == (3, 4, 5)
    assert (found["end_line"], found["end_column"]) == (4, 60)
    assert [(step["cell"], step["line"]) for step in found["trace"]] == [(3, 3), (3, 4), (3, 5)]
    assert report.files == 1


def test_text_shows_cells_and_their_lines(tmp_path: Path) -> None:
    micro = "def micro(x, y):\n    scaler.scale(criterion(model(x), y)).backward()"
    loop = LOOP.replace("scaler.scale(criterion(model(x), y)).backward()", "micro(x, y)")
    loop = loop.replace("scaler.step", "%time scaler.step")
    lines = shown(check(tmp_path, notebook(SETUP, micro, PROSE, loop)), "text")
    assert lines[0].startswith(f"{tmp_path / 'train.ipynb'}:cell 4:3:5  AMP101")
    assert [line.split("   ")[0] if line.startswith("  cell") else line.split() for line in lines[2:5]] == [
        "  cell 2:2 │ scaler.scale(criterion(model(x), y)).backward()",
        "3 │ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) clipped at 1.0 / S".split(),
        "4 │ %time scaler.step(optimizer) unscaled here, after the clip".split(),
    ]


def test_concise_names_the_cell(tmp_path: Path) -> None:
    first, last = shown(check(tmp_path, notebook(SETUP, LOOP)), "concise")
    assert first.startswith(f"{tmp_path / 'train.ipynb'}:cell 2:3:5: AMP101 clip-before-unscale error: ")
    assert last == "1 error in 1 file analysed"


def test_places_outside_the_module_are_the_first_line() -> None:
    cells = decode("a.ipynb", notebook("loss.backward()")).cells
    assert cells is not None
    at = cells.place(Site("a.ipynb", 9, 1, 9, 1))
    assert (at.cell, at.line, cells.text(9)) == (1, 1, "")


def test_cells_come_in_document_order(tmp_path: Path) -> None:
    assert places(check(tmp_path, notebook(SETUP, LOOP, "model = None"))) == [(2, 3, "AMP101")]


def test_a_notebook_in_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    check(tmp_path / "sub", notebook(SETUP, LOOP))
    assert [f.code for f in check_paths([str(tmp_path)]).findings] == ["AMP101"]


def test_the_traces_of_a_notebook(tmp_path: Path) -> None:
    check(tmp_path, notebook(SETUP, LOOP))
    assert [trace.root for trace in traces_of(str(tmp_path / "train.ipynb"))] == ["the module"]


# --- what a cell may be -----------------------------------------------------------------------------------------


def test_a_source_is_a_list_or_a_string() -> None:
    as_list = notebook("a = 1\nloss.backward()")
    as_text = notebook({"cell_type": "code", "source": "a = 1\nloss.backward()"})
    assert decode("a.ipynb", as_list).text == decode("a.ipynb", as_text).text == "a = 1\nloss.backward()\n"


def test_an_old_notebook_has_worksheets() -> None:
    cells = [
        {"cell_type": "code", "language": "python", "input": ["loss.backward()"]},
        {"cell_type": "code", "language": "bash", "input": "ls"},
    ]
    data = json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}, {}, None]}).encode()
    assert decode("a.ipynb", data).text == "loss.backward()\n"


def test_a_cell_of_another_language_is_none_of_ours() -> None:
    sql = {"cell_type": "code", "metadata": {"vscode": {"languageId": "sql"}}, "source": "SELECT backward"}
    assert decode("a.ipynb", notebook(sql, "loss.backward()")).text == "loss.backward()\n"


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_in_cells_are_any_systems(end: str) -> None:
    cell = {"cell_type": "code", "source": f"a = 1{end}loss.backward()"}
    assert decode("a.ipynb", notebook(cell)).text == "a = 1\nloss.backward()\n"


def test_a_half_surrogate_is_no_crash() -> None:
    assert decode("a.ipynb", notebook("x = '\ud800'\nloss.backward()")).text.startswith("x = '?'")


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_does_not_matter(data: bytes) -> None:
    assert decode("a.ipynb", data + notebook("loss.backward()")).text == "loss.backward()\n"


# --- cells that are no Python -----------------------------------------------------------------------------------


def test_a_broken_cell_does_not_hide_the_others(tmp_path: Path) -> None:
    report = check(tmp_path, notebook(SETUP, "a = 1\nx = = 1", LOOP))
    assert places(report) == [(2, 2, "AMP900"), (3, 3, "AMP101")]
    note, _ = report.findings
    assert (note.severity, note.message) == ("note", "not Python: cell 2, line 2: invalid syntax")
    assert not report.failures
    assert report.files == 1


def test_a_broken_cell_with_a_training_step_is_an_error(tmp_path: Path) -> None:
    report = check(tmp_path, notebook("for every batch:\n    loss.backward()"))
    assert [(f.code, f.severity) for f in report.findings] == [("AMP900", "error")]
    assert [f.message for f in report.failures] == ["not Python: cell 1, line 1: invalid syntax"]
    assert report.files == 0


def test_what_is_cut_over_two_cells_is_no_python() -> None:
    read = decode(
        "a.ipynb", notebook("if x:\n    y = 1", "else:\n    loss.backward()", "f(", ")", "a = 1 \\")
    )
    assert [cell.line for cell in read.omitted] == [3, 5, 6, 7]
    assert [cell.matters for cell in read.omitted] == [True, False, False, False]


@pytest.mark.parametrize("text", ["x = '\x00'", "(" * 300 + ")" * 300, "\\"])
def test_odd_cells_are_left_out(tmp_path: Path, text: str) -> None:
    assert places(check(tmp_path, notebook(text, SETUP, LOOP))) == [(1, 1, "AMP900"), (3, 3, "AMP101")]


# --- what is no notebook ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"cells": [backward]}', "not a notebook: no JSON: line 1: Expecting value"),
        (b'{"cells": [],\n "backward', "not a notebook: no JSON: line 2: Unterminated string"),
        (b'"backward"', "not a notebook: its JSON is no object"),
        (b'["backward"]', "not a notebook: its JSON is no object"),
        (b'{"backward": 1}', "not a notebook: it has no cells"),
        (b'{"cells": {"backward": 1}}', "not a notebook: it has no cells"),
        (b'{"cells": ["backward"]}', "not a notebook: cell 1 is no object"),
        (
            b'{"cells": [{"cell_type": "code", "source": 3}]}',
            "not a notebook: the source of cell 1 is no text",
        ),
        (b'{"cells": [{"cell_type": "code", "source": [["backward"]]}]}', "the source of cell 1 is no text"),
        (b'{"backward": ' + b"[" * 100_000, "not a notebook: nested too deeply"),
        (b'{"backward": ' + b"1" * 5000 + b"}", "not a notebook: no JSON: Exceeds"),
        (b'{"backward": "\xff"}', "not a notebook: cannot be decoded"),
    ],
)
def test_what_is_no_notebook_says_why_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as caught:
        decode("a.ipynb", data)
    assert "\n" not in str(caught.value)


def test_a_notebook_that_is_none_is_a_finding(tmp_path: Path) -> None:
    report = check(tmp_path, b'{"backward": 1}')
    assert [(f.code, f.severity) for f in report.findings] == [("AMP900", "error")]
    assert [f.message for f in report.failures] == ["not a notebook: it has no cells"]
    assert shown(report, "concise")[0].startswith(f"{tmp_path / 'train.ipynb'}:1:1: AMP900")


def test_a_notebook_in_another_language_says_so() -> None:
    with pytest.raises(Unreadable, match="a notebook in julia, not in Python"):
        decode("a.ipynb", notebook("backward(loss)", kernelspec={"language": "Julia"}))


def test_a_notebook_without_a_training_step_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("ampcheck.notebook.without_magics", refuse)
    read = decode("a.ipynb", notebook(PROSE, "print('what the outputs say') = 1"))
    assert (read.text, read.omitted) == ("", ())


def test_a_notebook_may_be_larger_than_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampcheck.source.LARGEST", 2000)
    picture = {"cell_type": "raw", "metadata": {}, "source": "x" * 5000}
    assert places(check(tmp_path, notebook(picture, SETUP, LOOP))) == [(3, 3, "AMP101")]
    report = check(tmp_path, notebook("x = 1\n" * 1000, SETUP, LOOP))
    assert "its code is larger than" in report.failures[0].message


def test_options_choose_among_a_notebooks_findings(tmp_path: Path) -> None:
    check(tmp_path, notebook(SETUP, "x = = 1", LOOP))
    options = Options(ignore=frozenset({"AMP900"}))
    report = check_paths([str(tmp_path / "train.ipynb")], options=options)
    assert [f.code for f in report.findings] == ["AMP101"]


def test_a_refusal_after_the_cells_were_joined_names_the_cell(tmp_path: Path) -> None:
    """What `ast` reads and libcst refuses."""
    report = check(tmp_path, notebook("import torch", "a = 1\nclass A(metaclass=B, *c):\n    a.backward()"))
    assert [f.message for f in report.failures] == ["not Python: cell 2, line 3: invalid syntax"]
    assert places(report) == [(2, 3, "AMP900")]


def test_a_cell_in_newer_python_than_this_is_read(tmp_path: Path) -> None:
    quoted = "print(f'{sizes['x']}')"  # since Python 3.12
    assert places(check(tmp_path, notebook(quoted, SETUP, LOOP))) == [(3, 3, "AMP101")]
