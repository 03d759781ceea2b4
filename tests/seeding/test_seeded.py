"""Each rule's fault, put into correct loops of different styles, is found and confirmed.

All loops take some minutes (``AMPCHECK_ALL_SEEDS=1``, or `tests.seeding.table` for the table); without that, each rule
is tried in two of them, other ones for each rule.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.check import check_paths
from tests.seeding.known import ACCEPTED, MISSED
from tests.seeding.script import Impossible
from tests.seeding.seeds import LOOPS, SEEDS, UNSEEDED, Seed, dressed, seeded
from tests.seeding.table import Cell, Key, judge

pytestmark = pytest.mark.usefixtures("uncounted")

ALL = "AMPCHECK_ALL_SEEDS" in os.environ
TRIED = len(LOOPS) if ALL else 2


def can_have(code: str, loop: Path) -> bool:
    """Whether the fault can exist in the loop, and is not one of those that are known to be missed."""
    try:
        seeded(loop, SEEDS[code])
    except Impossible:
        return False
    return (code, loop.stem) not in MISSED


def chosen() -> list[Key]:
    keys: list[Key] = []
    for number, code in enumerate(SEEDS):
        turned = (*LOOPS[number % len(LOOPS) :], *LOOPS[: number % len(LOOPS)])
        keys += [(code, loop.stem) for loop in [x for x in turned if can_have(code, x)][:TRIED]]
    return keys + (list(MISSED) if ALL else [])


@pytest.fixture(scope="module")
def cells() -> dict[Key, Cell]:
    return judge(chosen())


def test_every_rule_has_a_seed_or_a_reason() -> None:
    assert {rule.code for rule in registry.built_in()} == {*SEEDS, *UNSEEDED}


def test_the_loops_are_silent_in_every_dressing(tmp_path: Path) -> None:
    wearing = {seed.wearing: seed for seed in SEEDS.values()}
    for number, seed in enumerate(wearing.values()):
        for loop in LOOPS:
            try:
                source = dressed(loop, Seed(seed.code, seed.edit, seed.wearing)).source
            except Impossible:
                continue
            compile(source, loop.stem, "exec")
            (tmp_path / f"{number}_{loop.stem}.py").write_text(source, encoding="utf-8")
    report = check_paths([str(tmp_path)])
    assert report.files > 100
    assert [(f.code, Path(f.site.path).stem) for f in report.findings] == []


def test_each_fault_can_be_in_ten_loops() -> None:
    possible = {code: sum(can_have(code, loop) for loop in LOOPS) for code in SEEDS}
    assert not {code: number for code, number in possible.items() if number < 10}


@pytest.mark.parametrize("code", SEEDS)
def test_it_is_found_and_confirmed(code: str, cells: dict[Key, Cell]) -> None:
    tried = {loop: cell for (c, loop), cell in cells.items() if c == code and (c, loop) not in MISSED}
    assert len(tried) >= 2
    accepted = ACCEPTED.get(code, frozenset({"confirmed"}))
    assert not {loop: cell for loop, cell in tried.items() if cell.outcome not in accepted}


@pytest.mark.skipif(not ALL, reason="only with AMPCHECK_ALL_SEEDS")
def test_what_is_known_to_be_missed_still_is(cells: dict[Key, Cell]) -> None:
    assert [key for key in MISSED if cells[key].outcome != "missed"] == []
