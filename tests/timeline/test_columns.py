"""Which micro-batch an event belongs to, and which ones are shown."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Event, Loss, Site, Step, ZeroGrad
from ampcheck.gradients import State
from ampcheck.timeline.columns import MOST, micros_of, shown
from ampcheck.trace import Record

SITE = Site("train.py", 1, 1, 1, 1)


def backward(micro: int) -> Event:
    return Backward(site=SITE, loss=Loss(), reaches=("optimizer",), micro=micro)


def run(length: int, windows: int) -> list[Record]:
    """`zero_grad` and a backward in each iteration, a step at the end of each window."""
    records: list[Record] = []

    def add(event: Event, micro: int, iteration: int) -> None:
        records.append(Record(len(records), event, State(), State(), micro, 0, (iteration,)))

    for i in range(length * windows):
        add(ZeroGrad(site=SITE, owners=("optimizer",)), max(i - 1, 0), i)  # as a run counts it
        add(backward(i), i, i)
        if i % length == length - 1:
            add(Step(site=SITE, optimizer="optimizer"), i, i)
    return records


def test_what_precedes_a_backward_belongs_to_its_iteration() -> None:
    records = run(2, 2)
    micros = micros_of(records)
    assert [micros[r.index] for r in records if isinstance(r.event, ZeroGrad)] == [0, 1, 2, 3]
    assert [micros[r.index] for r in records if isinstance(r.event, Step)] == [1, 3]


@pytest.mark.parametrize(
    ("told", "expected"),
    [((), [0, 1, 2]), ((0,), [0, 1, 2]), ((9,), [3, 4, 5]), ((5, 8), [1, 2, 3])],
    ids=["the first window", "its first event", "a later window", "an end and a beginning"],
)
def test_as_many_as_a_window_are_shown(told: tuple[int, ...], expected: list[int]) -> None:
    records = run(3, 3)
    assert shown(records, micros_of(records), told, 3) == expected


def test_the_middle_of_a_long_window_is_left_out() -> None:
    records = run(20, 1)
    found = shown(records, micros_of(records), (11,), 20)
    assert len(found) <= MOST
    assert {0, micros_of(records)[11], 19} <= set(found)


def test_no_training_no_columns() -> None:
    assert shown([], {}, (), 3) == []
