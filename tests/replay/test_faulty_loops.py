"""Every measured fault is confirmed, with the figure that was measured."""

from __future__ import annotations

import pytest

from ampcheck.finding import Replay
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import replayed


@pytest.fixture(scope="module")
def replays() -> dict[str, Replay]:
    return replayed({name: (fault.trace, fault.oracle) for name, fault in FAULTS.items()})


@pytest.mark.parametrize("name", FAULTS)
def test_is_confirmed_with_its_figure(name, replays):
    result = replays[name]
    assert result.outcome == "confirmed", result.text
    assert FAULTS[name].says in result.text
    assert result.device == "cpu"
    assert result.figures["scenario"]


def test_a_loop_is_not_confirmed_by_what_it_does_right(replays):
    """The gradient of a loop that only steps its scheduler wrongly is right."""
    wrong_schedule = FAULTS["39 schedule on every micro-batch"].trace
    wrong_syncs = FAULTS["D1 no no_sync"].trace
    results = replayed({"schedule": (wrong_schedule, ("gradient",)), "syncs": (wrong_syncs, ("divergence",))})
    assert {r.outcome for r in results.values()} == {"refuted"}
