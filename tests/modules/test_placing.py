"""Where a finding stands: at its event, or at the call in a checked file that leads there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ampcheck.events import Site
from ampcheck.finding import Finding, Witness
from ampcheck.placing import merged, own, placed
from ampcheck.trace import Trace
from tests.tracing import backward, loop, trace

LOOP = Site("train.py", 3, 1, 9, 1)
CALL = Site("train.py", 5, 9, 5, 20)
OUTER = Site("train.py", 4, 5, 4, 20)
BETWEEN = Site("between.py", 7, 1, 7, 9)
ANY = trace(loop([backward()])).records[0]
EVENT = Site("helper.py", 2, 5, 2, 30)


def finding(
    site: Site = EVENT, *, calls: tuple[Site, ...] = (OUTER, CALL), loop: Site | None = LOOP, **changes: Any
) -> Finding:
    record = replace(ANY, event=replace(ANY.event, site=site), calls=calls, loop=loop)
    witness = Witness(Trace("train", (record,), {}), 0)
    return replace(Finding("AMP101", "x", "error", "certain", site, "m", witness=witness), **changes)


def sites(findings: list[Finding]) -> list[Site]:
    return [found.site for found in findings]


def test_a_finding_in_the_file_itself_stays() -> None:
    assert sites(placed([finding(CALL)], "train.py", {})) == [CALL]


def test_one_in_a_file_that_is_not_checked_moves_to_the_innermost_call() -> None:
    assert sites(placed([finding()], "train.py", {})) == [CALL]
    assert sites(placed([finding(calls=(OUTER, BETWEEN))], "train.py", {})) == [OUTER]


def test_one_whose_loop_stands_elsewhere_is_not_this_files() -> None:
    assert placed([finding(loop=replace(LOOP, path="between.py"))], "train.py", {}) == []
    assert placed([finding(loop=None)], "train.py", {}) == []
    assert placed([finding(calls=(BETWEEN,))], "train.py", {}) == []
    assert placed([finding(witness=None)], "train.py", {}) == []


def test_one_in_another_checked_file_stays_there_as_that_is_shown(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    checked = {str(tmp_path / "helper.py"): "./helper.py"}
    assert sites(placed([finding()], "train.py", checked)) == [replace(EVENT, path="./helper.py")]


def test_what_a_loop_does_wrong_is_said_where_the_loop_stands() -> None:
    summed = finding(of_loop=True)
    assert sites(placed([summed], "train.py", {str(Path("helper.py").absolute()): "helper.py"})) == [CALL]
    elsewhere = finding(of_loop=True, loop=replace(LOOP, path="between.py"))
    assert placed([elsewhere], "train.py", {str(Path("helper.py").absolute()): "helper.py"}) == []
    assert own([summed], "helper.py") == []


def test_of_another_files_runs_only_what_lies_here_counts() -> None:
    assert sites(own([finding(), finding(CALL)], "./helper.py")) == [replace(EVENT, path="./helper.py")]
    assert own([finding(CALL)], "helper.py") == []


def test_each_fault_once_and_the_one_that_says_most() -> None:
    certain, conditional = finding(), finding(condition="use_amp")
    possible = finding(verdict="possible")
    for found in ([certain, conditional, possible], [possible, conditional, certain], [certain, certain]):
        assert merged(found) == [certain]
    assert merged([possible, conditional]) == [conditional]
    assert len(merged([certain, finding(code="AMP102"), finding(CALL)])) == 3


def test_what_is_said_of_the_analysis_is_merged_by_its_words() -> None:
    cut, other = (finding(witness=None, code="AMP902", message=why) for why in ("too many", "too deep"))
    assert merged([cut, other, cut]) == [cut, other]
