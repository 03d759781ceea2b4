"""Every fixture is judged as its comments say; the replay confirms what is wrong, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.check import Options, check_paths, traces_of
from ampcheck.events import Step
from ampcheck.finding import Finding
from ampcheck.replay import compare, replay
from ampcheck.rule import Rule
from tests.expectations import FIXTURES, Place, expected, fixture_files, is_right, label

CERTAIN = Options(select=frozenset(), ignore=frozenset(), possible=False)
RULES = {rule.code: rule for rule in registry.built_in()}
# They report on files and on ampcheck itself, and are not fixtures of a training loop.
WITHOUT_SHAPES = frozenset({"AMP900", "AMP902", "AMP903"})


def findings_in(path: Path) -> tuple[Finding, ...]:
    return tuple(f for f in check_paths([str(path)], options=CERTAIN).findings if f.verdict == "certain")


@pytest.mark.parametrize("path", fixture_files(), ids=label)
def test_the_findings_are_exactly_the_expected_ones(path: Path) -> None:
    found = Counter(Place(finding.site.line, finding.code) for finding in findings_in(path))
    assert dict(found) == dict.fromkeys(expected(path), 1)


@pytest.mark.parametrize("path", fixture_files(), ids=label)
def test_names_and_comments_agree(path: Path) -> None:
    if is_right(path):
        assert not expected(path)
    elif "wrong" in path.stem:
        assert expected(path)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: f"{rule.code}-{rule.name}")
def test_every_rule_has_three_wrong_shapes_and_two_right_ones(rule: Rule) -> None:
    folder = rule.name.replace("-", "_")
    assert (FIXTURES / folder).is_dir()
    if rule.code in WITHOUT_SHAPES:
        return
    files = fixture_files(folder)
    wrong = [path for path in files if rule.code in {place.code for place in expected(path)}]
    assert len(wrong) >= 3
    assert len([path for path in files if is_right(path)]) >= 2


@pytest.mark.parametrize("path", fixture_files("constructs"), ids=label)
def test_every_construct_has_both_files(path: Path) -> None:
    construct = path.stem.removesuffix("_right").removesuffix("_wrong")
    other = f"{construct}_wrong.py" if is_right(path) else f"{construct}_right.py"
    assert path.with_name(other).is_file()


def test_every_error_with_an_oracle_is_confirmed() -> None:
    report = check_paths([str(FIXTURES)], options=CERTAIN)
    replayed = replay(report.findings, device="cpu")
    observable = [f for f in replayed if f.severity == "error" and _has_oracle(f)]
    unconfirmed = [
        f"{f.site.path}:{f.site.line} {f.code} {f.replay and f.replay.text}"
        for f in observable
        if f.replay is None or f.replay.outcome != "confirmed"
    ]
    assert not unconfirmed
    assert len(observable) >= 100
    assert not [f for f in replayed if f.replay is not None and f.replay.outcome == "refuted"]


def test_right_fixtures_replay_like_a_correct_loop() -> None:
    traces = [(path, t) for path in fixture_files() if is_right(path) for t in traces_of(str(path))]
    stepping = [(path, trace) for path, trace in traces if any(trace.of(Step))]
    deviations = compare([trace for _, trace in stepping], device="cpu")
    assert stepping
    assert not {
        f"{label(path)} {trace.root} {trace.condition}": found
        for (path, trace), found in zip(stepping, deviations, strict=True)
        if found
    }


def _has_oracle(finding: Finding) -> bool:
    return finding.code in RULES and bool(RULES[finding.code].oracle)
