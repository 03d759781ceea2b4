"""Two ranks in two threads: what no_sync does is really measured, and the same every time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ampcheck.replay import RANKS, compare, measure
from tests.replay.correct_loops import CORRECT
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import replayed

WRONG = [name for name in FAULTS if name.startswith("D") and "world" not in name]
REPEATS = 20


@pytest.fixture(scope="module")
def synced() -> Sequence[int]:
    """All-reduces in two windows: always, never, only the backward, inverted, bypassed, right."""
    traces = [*(FAULTS[name].trace for name in WRONG), CORRECT["no_sync until the last"]]
    seen = measure([(trace, RANKS) for trace in traces], "cpu")
    return [observed.syncs["optimizer"] for observed in seen]


def test_all_reduces_in_two_windows_of_three(synced):
    assert dict(zip([*WRONG, "right"], synced, strict=True)) == {
        "D1 no no_sync": 6,
        "D2 no_sync on all": 0,
        "D3 only backward in no_sync": 6,
        "D4 no_sync inverted": 4,
        "D5 module called": 0,
        "right": 2,
    }


def test_the_verdict_is_the_same_every_time():
    cases = {
        f"{name} {n}": (FAULTS[name].trace, FAULTS[name].oracle) for name in WRONG for n in range(REPEATS)
    }
    texts = {name: result.text for name, result in replayed(cases).items()}
    assert len(texts) == len(WRONG) * REPEATS
    for name in WRONG:
        assert len({texts[f"{name} {n}"] for n in range(REPEATS)}) == 1


def test_correct_ranks_agree():
    right = [CORRECT[name] for name in ("no_sync until the last", "no_sync around the forward")]
    assert compare(right, "cpu") == ({}, {})
    seen = measure([(trace, RANKS) for trace in right], "cpu")
    assert [observed.divergence for observed in seen] == [0.0, 0.0]
