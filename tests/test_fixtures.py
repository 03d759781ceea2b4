"""Every fixture is judged as its comments say; the replay confirms what is wrong, and nothing else."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ampcheck import importers, registry
from ampcheck.check import Options, check_paths, traces_of
from ampcheck.events import Backward, Differentiate, Edit, EngineCall, Escape, Read, Step
from ampcheck.finding import Finding, Report
from ampcheck.replay import compare, replay
from ampcheck.report.place import located
from ampcheck.rule import Rule
from ampcheck.trace import Trace
from tests.expectations import FIXTURES, Place, expected, fixture_files, is_right, label, possible

CERTAIN = Options(select=frozenset(), ignore=frozenset(), possible=False)
RULES = {rule.code: rule for rule in registry.built_in()}
# Files that cannot be read or not be explored to the end come in fewer shapes than training loops do, and no file
# makes ampcheck itself fail: that is tested by breaking it.
FEWER_SHAPES = frozenset({"AMP900", "AMP902"})
NO_SHAPES = frozenset({"AMP903"})


# Files of a project are checked together (`tests/test_projects.py`): alone, a file also shows what it calls.
ALONE = [path for path in fixture_files() if "projects" not in path.parts]


@pytest.fixture(scope="module", autouse=True)
def scanned_once() -> Iterator[None]:
    """The imports of this whole project are read once, not for each fixture anew: here no file changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importers, "_scan", functools.cache(importers._scan))
        yield


def certain_in(path: Path) -> Report:
    """The certain findings; a rule that is off unless it is selected is on in its own folder."""
    own = {r.code for r in RULES.values() if r.opt_in and r.name.replace("-", "_") == path.parent.name}
    report = check_paths([str(path)], options=replace(CERTAIN, select=frozenset(own and RULES)))
    return replace(report, findings=tuple(f for f in report.findings if f.verdict == "certain"))


@pytest.mark.parametrize("path", ALONE, ids=label)
def test_the_findings_are_exactly_the_expected_ones(path: Path) -> None:
    report = certain_in(path)
    places = [(located(finding.site, report.notebooks), finding.code) for finding in report.findings]
    found = Counter(Place(at.line, code, at.cell) for at, code in places)
    assert dict(found) == dict.fromkeys(expected(path), 1)


@pytest.mark.parametrize("path", fixture_files(), ids=label)
def test_names_and_comments_agree(path: Path) -> None:
    if is_right(path):
        assert not expected(path) | possible(path)
    elif "wrong" in path.stem:
        assert expected(path) | possible(path)


@pytest.mark.parametrize("name", ["rank_local_skip"])
def test_what_is_never_certain_is_possible_where_expected(name: str) -> None:
    options = Options(
        select=frozenset(r.code for r in RULES.values() if r.name == name.replace("_", "-")), possible=True
    )
    for path in fixture_files(name):
        found = check_paths([str(path)], options=options).findings
        assert {Place(f.site.line, f.code) for f in found} == possible(path)
        assert all(f.verdict == "possible" for f in found)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES.values() if rule.code not in NO_SHAPES], ids=lambda rule: rule.name
)
def test_every_rule_has_three_wrong_shapes_and_two_right_ones(rule: Rule) -> None:
    files = fixture_files(rule.name.replace("-", "_"))
    wrong = [path for path in files if rule.code in {place.code for place in expected(path) | possible(path)}]
    right = [path for path in files if is_right(path)]
    assert len(wrong) >= (1 if rule.code in FEWER_SHAPES else 3)
    assert len(right) >= (1 if rule.code in FEWER_SHAPES else 2)


@pytest.mark.parametrize("path", fixture_files("constructs"), ids=label)
def test_every_construct_has_both_files(path: Path) -> None:
    construct = path.stem.removesuffix("_right").removesuffix("_wrong")
    other = f"{construct}_wrong.py" if is_right(path) else f"{construct}_right.py"
    assert path.with_name(other).is_file()


# From here on nothing is counted: `uncounted` lasts until the end of a file.


@pytest.mark.usefixtures("uncounted")
def test_every_error_with_an_oracle_is_confirmed() -> None:
    report = check_paths([str(FIXTURES)], options=CERTAIN)
    replayed = replay(report.findings, device="cpu")
    observable = [f for f in replayed if f.severity == "error" and _has_oracle(f)]
    unconfirmed = [
        f"{f.site.path}:{f.site.line} {f.code} {f.replay and f.replay.text}"
        for f in observable
        if f.replay is None or not f.replay.outcome.startswith("confirmed")
    ]
    assert not unconfirmed
    assert len(observable) >= 100
    assert not [f for f in replayed if f.replay is not None and f.replay.outcome == "refuted"]


FIGURES = {
    ("plain_amp.py", "AMP101"): [
        "norm at step 0.125",
        "(0.075, 0.1) for (0.6, 0.8)",
        "1.0, 0.125, 0.015625",
        "expected (1, 1)",
    ],
    ("plain_amp.py", "AMP204"): ["norm at step 1.4142 = √2·M, expected 1.0"],
    ("accumulate.py", "AMP305"): ["48/8 = 6.0, expected 2.0"],
    ("accumulate.py", "AMP105"): ["13.667, expected 2.0"],
    ("schedule.py", "AMP501"): ["scheduler 8 steps, optimizer 2"],
}


@pytest.mark.usefixtures("uncounted")
def test_the_tour_shows_the_figures_of_the_source_documents() -> None:
    texts: defaultdict[tuple[str, str], str] = defaultdict(str)
    for finding in replay(check_paths([str(FIXTURES / "tour")], options=CERTAIN).findings, device="cpu"):
        texts[Path(finding.site.path).name, finding.code] += f"{finding.replay and finding.replay.text}\n"
    missing = [(key, part) for key, parts in FIGURES.items() for part in parts if part not in texts[key]]
    assert not missing


@pytest.mark.usefixtures("uncounted")
def test_right_fixtures_replay_like_a_correct_loop() -> None:
    runs = [
        (path, trace)
        for path in fixture_files()
        if is_right(path)
        and path.parent.name != "unused_suppression"  # there the comments are right, not the loops
        for trace in traces_of(str(path))
        if any(trace.of(Step)) and not _is_cut_short(trace) and not _is_beyond_the_references(trace)
    ]
    deviations = compare([trace for _, trace in runs], device="cpu")
    assert len({path for path, _ in runs}) >= 50
    assert not {
        f"{label(path)} {trace.root} {trace.condition}": found
        for (path, trace), found in zip(runs, deviations, strict=True)
        if found
    }


def _is_cut_short(trace: Trace) -> bool:
    """Whether a test of the user's own that no scenario decides has chosen among the run's iterations."""
    return any(g.varying and not g.finite and g.skip is None for g in trace.choices)


# What the replay's correct loops do not have, so that a comparison with them says nothing: engines skip steps and
# schedules by themselves, derivatives and escaped gradients are not followed, a norm may be meant to carry the scale.
BEYOND = (EngineCall, Differentiate, Escape, Read)


def _is_beyond_the_references(trace: Trace) -> bool:
    """Whether a loop is right in a way that the replay's references do not know."""
    # apex skips by itself; experts are left out of the reduction; a clip may stand in the step's own closure; an
    # optimizer may step before anything is trained, so that its scheduler does not warn.
    edits = any(edit.latest or edit.partial for _, edit in trace.of(Edit))
    closures = "closure" in trace.root or any(step.closure for _, step in trace.of(Step))
    first = next((r for r in trace.records if isinstance(r.event, (Step, Backward))), None)
    early = first is not None and isinstance(first.event, Step)
    return edits or closures or early or any(isinstance(r.event, BEYOND) for r in trace.records)


def _has_oracle(finding: Finding) -> bool:
    rule = RULES.get(finding.code)
    return rule is not None and bool(rule.oracle or rule.measured)
