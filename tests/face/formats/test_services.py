"""What GitHub, GitLab, JUnit's readers and reviewdog are given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampcheck.events import Site
from ampcheck.finding import Edit, Finding, Fix, Report
from tests.face.formats.conftest import ODD, formatted, schema

COMMAND = re.compile(r"::(?P<level>error|warning|notice) (?P<properties>[^:]*)::(?P<data>.*)")


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner reads them: https://github.com/actions/toolkit (command.ts) in reverse."""

    def decoded(value: str) -> str:
        for escape, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            value = value.replace(escape, character)
        return value

    found = []
    for line in text.splitlines():
        if match := COMMAND.fullmatch(line):
            pairs = (pair.split("=", 1) for pair in match["properties"].split(","))
            properties = {name: decoded(value) for name, value in pairs}
            found.append((match["level"], properties, decoded(match["data"])))
    return found


# --- GitHub -----------------------------------------------------------------------------------------------------


def test_github_annotates_each_finding_and_what_was_not_analysed(hard: Report) -> None:
    found = commands(formatted("github", hard))
    assert [level for level, _, _ in found] == ["warning", "error", "notice", "error", "error", "error"]
    _, properties, data = found[1]
    assert properties == {
        "title": "AMP101 clip-before-unscale",
        "file": "train.py",
        "line": "3",
        "endLine": "3",
        "col": "5",
        "endColumn": "60",
    }
    assert data.splitlines()[0] == f"train.py:3:5: AMP101 {hard.findings[1].message} (when use_amp)"
    assert data.splitlines()[1] == "fix: call scaler.unscale_(optimizer) before the clip"
    assert data.splitlines()[2].startswith("replay (cpu): ")
    assert found[-1][1:] == (
        {"title": "not analysed", "file": "gone.py"},
        "gone.py: no such file or directory",
    )


def test_github_gets_paths_and_messages_that_cannot_be_read_as_commands(hard: Report) -> None:
    text = formatted("github", hard)
    found = commands(text)
    assert found[0][1]["file"] == ODD
    assert "a, b: <c> & 100%\nmore" in found[2][2]
    assert text.splitlines()[len(found) :] == [
        "2 errors, 1 warning, 1 note in 4 files analysed, 2 not analysed",
        "replay on cpu: 1 confirmed",
    ]


def test_github_paths_count_from_the_checkout(
    clipped: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    ((_, properties, _),) = commands(formatted("github", Report((clipped,), files=1)))
    assert properties["file"] == f"{tmp_path.name}/train.py"


def test_github_takes_columns_on_one_line_only(clipped: Finding) -> None:
    long = replace(clipped, site=replace(clipped.site, end_line=5))
    ((_, properties, _),) = commands(formatted("github", Report((long,), files=1)))
    assert (properties["line"], properties["endLine"], "col" in properties) == ("3", "5", False)


def test_github_annotates_the_line_of_a_notebook_s_json(
    cells: Report, raw_line: Callable[[str], int]
) -> None:
    ((_, properties, data),) = commands(formatted("github", cells))
    assert (properties["file"], properties["line"]) == ("train.ipynb", str(raw_line("clip_grad_norm_")))
    assert data.startswith("train.ipynb:cell 3:5:5: AMP101")


# --- GitLab -----------------------------------------------------------------------------------------------------


def test_gitlab_has_what_its_documentation_asks_for(hard: Report) -> None:
    issues = json.loads(formatted("gitlab", hard))
    assert [issue["severity"] for issue in issues] == ["minor", "major", "info", "major", "major"]
    assert issues[1]["location"] == {"path": "train.py", "lines": {"begin": 3, "end": 3}}
    assert issues[1]["check_name"] == "clip-before-unscale"
    assert (
        issues[1]["description"] == f"AMP101 clip-before-unscale: {hard.findings[1].message} (when use_amp)"
    )
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert all(re.fullmatch("[0-9a-f]{32}", issue["fingerprint"]) for issue in issues)
    assert issues[0]["location"]["path"] == ODD


def test_gitlab_paths_count_from_the_project(
    clipped: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path.parent))
    (issue,) = json.loads(formatted("gitlab", Report((clipped,), files=1)))
    assert issue["location"]["path"] == f"{tmp_path.name}/train.py"


def test_gitlab_gets_an_empty_array_for_clean_code() -> None:
    assert json.loads(formatted("gitlab", Report(files=3))) == []


# --- JUnit ------------------------------------------------------------------------------------------------------


def read_junit(text: str) -> Any:
    junitparser = pytest.importorskip("junitparser")
    return junitparser.JUnitXml.fromstring(text.encode("ascii"))


def test_junit_is_read_by_junitparser(hard: Report) -> None:
    document = read_junit(formatted("junit", hard))
    assert (document.tests, document.failures, document.errors) == (6, 4, 1)
    suites = list(document)
    assert [suite.name for suite in suites] == [ODD, "train.py", "train.ipynb", "x.py", "gone.py"]
    assert [(suite.tests, suite.failures, suite.errors) for suite in suites] == [
        (1, 1, 0),
        (2, 1, 0),
        (1, 1, 0),
        (1, 1, 0),
        (1, 0, 1),
    ]
    failed, note = suites[1]
    assert failed.name == "AMP101 clip-before-unscale at 3:5"
    (failure,) = failed.result
    assert failure.type == "error"
    assert failure.message == f"{hard.findings[1].message} (when use_amp)"
    assert "clipped at 1.0 / S" in failure.text
    assert note.is_passed
    assert "a, b: <c> & 100%" in note.system_out


def test_junit_holds_what_xml_cannot(clipped: Finding) -> None:
    odd = replace(
        clipped, message="null \0 and \x1b[31m and \udcff", site=replace(clipped.site, path="\x01.py")
    )
    (suite,) = read_junit(formatted("junit", Report((odd,), files=1)))
    assert suite.name == r"\x01.py"
    (case,) = suite
    assert case.result[0].message == r"null \x00 and \x1b[31m and \udcff (when use_amp)"


def test_junit_of_clean_code_is_a_passed_test() -> None:
    document = read_junit(formatted("junit", Report(files=3)))
    ((case,),) = document
    assert (case.name, case.is_passed, document.tests) == ("3 files analysed", True, 1)


# --- reviewdog --------------------------------------------------------------------------------------------------


def test_rdjson_has_the_documented_shape(hard: Report) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    result = json.loads(formatted("rdjson", hard))
    jsonschema.validate(result, schema("rdjson.json"))
    jsonschema.validate(json.loads(formatted("rdjson", Report(files=1))), schema("rdjson.json"))
    assert [d["severity"] for d in result["diagnostics"]] == ["WARNING", "ERROR", "INFO", "ERROR", "ERROR"]
    shown = result["diagnostics"][1]
    assert shown["location"] == {
        "path": "train.py",
        "range": {"start": {"line": 3, "column": 5}, "end": {"line": 3, "column": 60}},
    }
    assert shown["code"]["value"] == "AMP101"
    assert shown["code"]["url"].endswith("/docs/rules/clip-before-unscale.md")
    assert shown["message"].startswith(hard.findings[1].message)


def test_rdjson_counts_columns_in_bytes(clipped: Finding, tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text("ü = 'a𐐀b'\n", encoding="utf-8")
    at = replace(clipped.site, path="wide.py", line=1, end_line=1, column=5, end_column=10)
    (shown,) = json.loads(formatted("rdjson", Report((replace(clipped, site=at),))))["diagnostics"]
    # 'ü = ' is five bytes, "'a𐐀b'" eight.
    assert shown["location"]["range"] == {"start": {"line": 1, "column": 6}, "end": {"line": 1, "column": 14}}


def test_rdjson_gives_whole_lines_in_a_notebook(cells: Report, raw_line: Callable[[str], int]) -> None:
    (shown,) = json.loads(formatted("rdjson", cells))["diagnostics"]
    line = raw_line("clip_grad_norm_")
    assert shown["location"]["range"] == {"start": {"line": line}, "end": {"line": line}}


def test_rdjson_suggests_a_fix_of_one_edit(clipped: Finding, cells: Report) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    edit = Edit(Site("train.py", 3, 1, 3, 1), "    scaler.unscale_(optimizer)\n")
    elsewhere = replace(edit, site=replace(edit.site, path="other.py"))
    fixes = ((edit,), (edit, edit), (elsewhere,))
    report = Report(tuple(replace(clipped, fix=Fix("Unscale first", edits)) for edits in fixes), files=1)
    result = json.loads(formatted("rdjson", report))
    jsonschema.validate(result, schema("rdjson.json"))
    assert [shown.get("suggestions") for shown in result["diagnostics"]] == [
        [
            {
                "range": {"start": {"line": 3, "column": 1}, "end": {"line": 3, "column": 1}},
                "text": "    scaler.unscale_(optimizer)\n",
            }
        ],
        None,
        None,
    ]
