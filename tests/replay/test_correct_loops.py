"""Nothing is confirmed of a correct loop, whatever one looks at; and its update does not depend on the scale."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from ampcheck.replay import SCENARIOS, compare, measure
from ampcheck.rule import Observable
from tests.replay.correct_loops import CORRECT
from tests.replay.oracles import Case, replayed

UNITS = next(s for s in SCENARIOS if s.name == "units")


@pytest.fixture(scope="module")
def deviations() -> dict[str, dict[str, str]]:
    return dict(zip(CORRECT, compare(list(CORRECT.values()), "cpu"), strict=True))


@pytest.mark.parametrize("name", CORRECT)
def test_agrees_with_a_reference_in_everything(name, deviations):
    assert deviations[name] == {}


def test_a_finding_on_a_correct_loop_is_refuted():
    cases: dict[str, Case] = {
        name: (trace, get_args(Observable)) for name, trace in list(CORRECT.items())[:12]
    }
    results = replayed(cases)
    assert {r.outcome for r in results.values()} == {"refuted"}
    assert "agrees with a correct loop in" in next(iter(results.values())).text


def test_parameters_are_bitwise_the_same_for_every_scale():
    scenarios = [replace(UNITS, scale=scale, whole=True) for scale in (1.0, 8.0, 65536.0)]
    observed = iter(measure([(trace, s) for trace in CORRECT.values() for s in scenarios], "cpu"))
    for name in CORRECT:
        first, *others = (next(observed).parameters for _ in scenarios)
        assert others == [first, first], name
        assert any(any(vector) for vector in first.values()), name
