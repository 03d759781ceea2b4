"""Each one-statement mutant of a correct loop is flagged and confirmed, benign, or another legitimate program."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from ampcheck.check import Options, check_paths, traces_of
from ampcheck.events import Edit, Step
from ampcheck.finding import Finding
from ampcheck.replay import compare, replay
from ampcheck.trace import Trace
from tests.mutation.lists import Key, benign, flagged, legitimate
from tests.mutation.mutants import LOOPS, Mutant, mutants_of

pytestmark = pytest.mark.usefixtures("uncounted")


def all_mutants() -> dict[Key, Mutant]:
    """Every loop's mutants; not made when the module is imported, since each worker imports it."""
    return {(mutant.loop, mutant.change): mutant for loop in LOOPS for mutant in mutants_of(loop)}


@dataclass(frozen=True)
class Judged:
    """What the check found in each mutant, and in what a silent one deviates from a correct loop.

    `beyond` are those whose engine the replay lacks, so that it cannot tell.
    """

    findings: dict[Key, list[Finding]]
    deviations: dict[Key, list[dict[str, str]]]
    beyond: frozenset[Key]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All mutants checked and replayed in one go: importing torch once is what takes the time."""
    folder = tmp_path_factory.mktemp("mutants")
    paths: dict[str, Key] = {}
    for number, (key, mutant) in enumerate(all_mutants().items()):
        file = folder / f"{mutant.loop}_{number}.py"
        file.write_text(mutant.source)
        paths[str(file)] = key
    report = check_paths(
        [str(folder)], options=Options(select=frozenset(), ignore=frozenset(), possible=False)
    )
    wrong = [f for f in report.findings if f.verdict == "certain" and f.severity != "note"]
    accused = {f.site.path for f in wrong}
    runs = [(path, trace) for path in paths if path not in accused for trace in traces_of(path)]
    findings, deviations = defaultdict(list), defaultdict(list)
    for finding in replay(wrong, device="cpu"):
        findings[paths[finding.site.path]].append(finding)
    beyond = frozenset(paths[path] for path, trace in runs if _is_beyond_torch(trace))
    stepping = [(p, trace) for p, trace in runs if any(trace.of(Step)) and not _is_beyond_torch(trace)]
    for (path, _), found in zip(stepping, compare([t for _, t in stepping], device="cpu"), strict=True):
        deviations[paths[path]].append(found)
    return Judged(findings, deviations, beyond)


def test_the_correct_loops_are_silent() -> None:
    report = check_paths(
        [str(path) for path in LOOPS], options=Options(select=frozenset(), ignore=frozenset(), possible=False)
    )
    assert not report.findings
    assert not report.failures


def test_every_mutant_is_on_one_list_and_none_is_stale() -> None:
    listed = [*flagged(), *benign(), *legitimate()]
    made = set(all_mutants())
    assert sorted(made - set(listed)) == []
    assert sorted(set(listed) - made) == []
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("loop", LOOPS, ids=lambda path: path.stem)
def test_a_mutant_differs_in_one_statement(loop: Path) -> None:
    lines = Counter(map(str.strip, loop.read_text().splitlines()))
    for mutant in mutants_of(loop):
        changed = Counter(map(str.strip, mutant.source.splitlines()))
        lost, won = lines - changed, changed - lines
        del won["pass"]  # what libcst writes into a block that has lost its only statement
        operation = mutant.change.split()[0]
        assert (lost.total(), won.total()) == {"delete": (1, 0), "double": (0, 1)}.get(operation, (0, 0))


def test_flagged_mutants_are_reported_and_confirmed(judged: Judged) -> None:
    outcomes = {key: {(f.code, _outcome(f)) for f in found} for key, found in judged.findings.items()}
    missed = [
        f"{': '.join(key)}: expected {code}, found {sorted(outcomes.get(key, ()))}"
        for key, code in flagged().items()
        if (code, "confirmed") not in outcomes.get(key, ())
    ]
    refuted = [": ".join(key) for key, found in outcomes.items() for _, out in found if out == "refuted"]
    assert not missed
    assert not refuted


def _outcome(finding: Finding) -> str:
    """What the replay made of a finding; where it has no such engine, the code must do."""
    if finding.replay is None or finding.witness is None:
        return "not replayed"
    if finding.replay.outcome == "inconclusive" and _is_beyond_torch(finding.witness.trace):
        return "confirmed"
    return finding.replay.outcome.removesuffix(" (library model)")


def _is_beyond_torch(trace: Trace) -> bool:
    """Whether a loop is apex's, whose own scaler the replay lacks."""
    return any(edit.latest for _, edit in trace.of(Edit))


def test_benign_mutants_are_silent_and_replay_like_the_reference(judged: Judged) -> None:
    for key, reason in benign().items():
        assert reason, key
        assert not judged.findings.get(key), key
        if key not in judged.beyond:
            assert judged.deviations[key], key
            assert not any(judged.deviations[key]), key


def test_legitimate_mutants_are_silent(judged: Judged) -> None:
    for key, reason in legitimate().items():
        assert reason, key
        assert not judged.findings.get(key), key
