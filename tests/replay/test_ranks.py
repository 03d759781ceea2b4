"""Two ranks in two threads: what no_sync does is really measured, and the same every time."""

from __future__ import annotations

import pytest

from ampcheck.replay import RANKS, Observed, measure
from tests.replay.correct_loops import CORRECT
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import replayed

WRONG = [name for name in FAULTS if name.startswith("D") and "world" not in name]
RIGHT = ["no_sync until the last", "no_sync around the forward"]
REPEATS = 20


@pytest.fixture(scope="module")
def seen() -> dict[str, Observed]:
    traces = {name: FAULTS[name].trace for name in WRONG} | {name: CORRECT[name] for name in RIGHT}
    return dict(zip(traces, measure([(t, RANKS) for t in traces.values()], "cpu"), strict=True))


def test_all_reduces_in_two_windows_of_three(seen):
    assert {name: observed.syncs["optimizer"] for name, observed in seen.items()} == {
        "D1 no no_sync": 6,
        "D2 no_sync on all": 0,
        "D3 only backward in no_sync": 6,
        "D4 no_sync inverted": 4,
        "D5 module called": 0,
        "no_sync until the last": 2,
        "no_sync around the forward": 2,
    }


def test_ranks_diverge_where_the_last_backward_is_not_synchronised(seen):
    diverging = {name for name, observed in seen.items() if observed.divergence > 0}
    assert diverging == {"D2 no_sync on all", "D4 no_sync inverted", "D5 module called"}


def test_the_verdict_is_the_same_every_time():
    cases = {
        f"{name} {n}": (FAULTS[name].trace, FAULTS[name].oracle) for name in WRONG for n in range(REPEATS)
    }
    texts = {name: result.text for name, result in replayed(cases, remember=False).items()}
    assert len(texts) == len(WRONG) * REPEATS
    for name in WRONG:
        assert len({texts[f"{name} {n}"] for n in range(REPEATS)}) == 1
