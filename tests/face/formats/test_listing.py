"""JSON Lines, statistics, and that the command line offers every format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ampcheck.finding import Finding, Report
from ampcheck.options import output
from ampcheck.report import FORMATS, STATISTICS
from ampcheck.report.line import plain
from tests.face.formats.conftest import formatted


def test_every_format_can_be_asked_for() -> None:
    assert tuple(FORMATS) == output.FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_survives_what_is_odd(name: str, hard: Report) -> None:
    assert formatted(name, hard).isascii() or name in ("text", "concise", "github")


def test_json_lines_are_the_findings_of_json(hard: Report) -> None:
    lines = formatted("json-lines", hard).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(formatted("json", hard))["findings"]


def test_statistics_count_by_rule_the_most_frequent_first(clipped: Finding) -> None:
    other = replace(clipped, code="AMP305", name="loss-not-divided", severity="warning")
    report = Report((other, *[clipped] * 10), files=2)
    assert [plain(line) for line in STATISTICS["text"](report)] == [
        "10  AMP101  clip-before-unscale  error",
        " 1  AMP305  loss-not-divided     warning",
        "",
        "10 errors, 1 warning in 2 files analysed",
    ]
    (line,) = STATISTICS["json"](report)
    assert json.loads(plain(line)) == [
        {"code": "AMP101", "name": "clip-before-unscale", "severity": "error", "count": 10},
        {"code": "AMP305", "name": "loss-not-divided", "severity": "warning", "count": 1},
    ]


def test_statistics_of_nothing() -> None:
    assert [plain(line) for line in STATISTICS["text"](Report(files=1))] == ["Clean: 1 file analysed"]
