"""SARIF: valid by the standard's own schema, complete, and read by somebody else's program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from ampcheck import pages, registry
from ampcheck.events import Site
from ampcheck.finding import Edit, Finding, Fix, Report
from ampcheck.fingerprint import fingerprints
from tests.face.formats.conftest import ODD, formatted, schema


def run_of(report: Report) -> dict[str, Any]:
    (run,) = json.loads(formatted("sarif", report))["runs"]
    return run  # type: ignore[no-any-return]


def located(result: dict[str, Any]) -> tuple[str, dict[str, int]]:
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]


@pytest.mark.parametrize("report", ["hard", "empty"])
def test_it_validates_against_the_official_schema(report: str, request: pytest.FixtureRequest) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    shown = Report(files=1) if report == "empty" else request.getfixturevalue(report)
    validator = jsonschema.Draft4Validator(schema("sarif-2.1.0.json"))
    log = json.loads(formatted("sarif", shown))
    assert list(validator.iter_errors(log)) == []
    log["runs"][0]["results"].append({"level": "fatal"})
    assert list(validator.iter_errors(log)) != [], "the schema refuses nothing"


def test_it_is_read_by_sarif_tools(hard: Report, tmp_path: Path) -> None:
    loader = pytest.importorskip("sarif.loader", reason="sarif-tools is not installed")
    path = tmp_path / "report.sarif"
    path.write_text(formatted("sarif", hard))
    log = loader.load_sarif_file(str(path))
    found = [(r["Tool"], r["Code"], r["Severity"], int(r["Line"])) for r in log.get_records()]
    assert found[:3] == [
        ("ampcheck", "AMP101", "warning", 3),
        ("ampcheck", "AMP101", "error", 3),
        ("ampcheck", "AMP101", "note", 3),
    ]
    assert found[-1] == ("ampcheck", "AMP900", "error", 1)
    assert log.get_result_count() == len(hard.findings)


def test_a_result_says_what_where_and_why(clipped: Finding) -> None:
    report = Report((clipped,), files=1)
    (result,) = run_of(report)["results"]
    assert (result["ruleId"], result["level"]) == ("AMP101", "error")
    assert result["message"]["text"] == f"{clipped.message} (when use_amp)"
    assert located(result) == (
        "train.py",
        {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 60},
    )
    assert result["properties"]["condition"] == "use_amp"


def test_the_witness_is_a_code_flow(clipped: Finding) -> None:
    (result,) = run_of(Report((clipped,), files=1))["results"]
    (flow,) = result["codeFlows"]
    (thread,) = flow["threadFlows"]
    assert [
        (step["location"]["physicalLocation"]["region"]["startLine"], step["location"]["message"]["text"])
        for step in thread["locations"]
    ] == [(1, "gradients × S"), (3, "clipped at 1.0 / S"), (4, "unscaled here, after the clip")]
    assert [step["importance"] for step in thread["locations"]] == ["important", "essential", "important"]
    assert [step["executionOrder"] for step in thread["locations"]] == [1, 2, 3]


def test_a_rule_has_its_page_and_its_address(clipped: Finding) -> None:
    run = run_of(Report((clipped,), files=1))
    (rule,) = run["tool"]["driver"]["rules"]
    known = registry.find("AMP101", registry.load())
    assert rule["help"]["markdown"] == pages.page(known)
    assert rule["shortDescription"]["text"] == f"{pages.summary(known)}."
    assert urlsplit(rule["helpUri"]).path.endswith(f"/docs/rules/{known.name}.md")
    assert rule["defaultConfiguration"]["level"] == "error"
    assert run["results"][0]["ruleIndex"] == 0


def test_every_result_points_to_its_rule(hard: Report) -> None:
    run = run_of(hard)
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [f.code for f in hard.findings]


def test_a_rule_that_is_not_loaded_has_its_name(clipped: Finding) -> None:
    (rule,) = run_of(Report((replace(clipped, code="XYZ101", name="of-a-pack"),)))["tool"]["driver"]["rules"]
    assert rule == {"id": "XYZ101", "name": "of-a-pack"}


def test_fingerprints_are_those_of_the_baseline(hard: Report) -> None:
    results = run_of(hard)["results"]
    assert [result["partialFingerprints"] for result in results] == [
        {"ampcheck/v1": digest} for digest in fingerprints(hard)
    ]


def test_what_was_not_analysed_is_a_notification(hard: Report) -> None:
    (invocation,) = run_of(hard)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] == [
        "x.py: not Python",
        "gone.py: no such file or directory",
    ]
    assert {n["level"] for n in invocation["toolExecutionNotifications"]} == {"error"}


def test_a_run_that_analysed_everything_was_successful(clipped: Finding) -> None:
    (invocation,) = run_of(Report((clipped,), files=1))["invocations"]
    assert invocation == {"executionSuccessful": True, "toolExecutionNotifications": []}


def test_paths_are_uris_below_the_working_directory(hard: Report, tmp_path: Path) -> None:
    run = run_of(hard)
    uri, _ = located(run["results"][0])
    assert unquote(uri) == ODD
    assert not set(" ü,") & set(uri)
    base = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    whole = urlsplit(urljoin(base, uri))
    assert (whole.scheme, unquote(whole.path)) == ("file", str(tmp_path / ODD))


def test_a_path_elsewhere_is_a_whole_uri(
    clipped: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    (result,) = run_of(Report((replace(clipped, site=replace(clipped.site, path="../train.py")),)))["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (tmp_path / "train.py").as_uri()}


def test_in_a_notebook_lines_are_those_of_its_json(cells: Report, raw_line: Callable[[str], int]) -> None:
    (result,) = run_of(cells)["results"]
    line = raw_line("clip_grad_norm_")
    assert located(result) == ("train.ipynb", {"startLine": line, "endLine": line})
    assert result["message"]["text"].startswith("cell 3, line 5: gradients of `optimizer` are clipped")
    assert result["locations"][0]["logicalLocations"][0] == {
        "name": "cell 3",
        "fullyQualifiedName": "cell 3:5:5",
    }
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["physicalLocation"]["region"]["startLine"] for step in steps] == [
        raw_line("scaler.scale(loss)"),
        line,
        raw_line("scaler.step("),
    ]


def test_the_replay_stands_beside_it(hard: Report) -> None:
    replay = run_of(hard)["results"][1]["properties"]["replay"]
    assert replay["outcome"] == "confirmed"
    assert replay["figures"] == {"clip-norm": "inf"}


def test_a_fix_is_given_by_file(clipped: Finding) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    line = Edit(Site("train.py", 3, 1, 3, 1), "    scaler.unscale_(optimizer)\n")
    other = Edit(Site("a b.py", 7, 5, 8, 1), "")
    fixed = replace(clipped, fix=Fix("Unscale first", (line, other), "safe"))
    log = json.loads(formatted("sarif", Report((fixed,), files=1)))
    jsonschema.Draft4Validator(schema("sarif-2.1.0.json")).validate(log)
    (fix,) = log["runs"][0]["results"][0]["fixes"]
    assert fix["description"]["text"] == "Unscale first (proven by the replay)"
    first, second = fix["artifactChanges"]
    assert first["artifactLocation"]["uri"] == "train.py"
    assert first["replacements"] == [
        {
            "deletedRegion": {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 1},
            "insertedContent": {"text": "    scaler.unscale_(optimizer)\n"},
        }
    ]
    assert (second["artifactLocation"]["uri"], second["replacements"][0]["insertedContent"]) == (
        "a%20b.py",
        {"text": ""},
    )


def test_a_fix_that_is_not_proven_says_so(clipped: Finding) -> None:
    edit = Edit(Site("train.py", 3, 1, 3, 1), "x\n")
    fixed = replace(clipped, fix=Fix("Unscale first", (edit,), "unsafe", "not proven yet"))
    (result,) = run_of(Report((fixed,), files=1))["results"]
    assert result["fixes"][0]["description"]["text"] == "Unscale first (look at it: not proven yet)"


def test_a_notebook_s_fix_is_left_to_ampcheck(cells: Report) -> None:
    edit = Edit(Site("train.ipynb", 8, 1, 8, 1), "    scaler.unscale_(optimizer)\n")
    fixed = replace(cells.findings[0], fix=Fix("Unscale first", (edit,)))
    (result,) = run_of(replace(cells, findings=(fixed,)))["results"]
    assert "fixes" not in result
