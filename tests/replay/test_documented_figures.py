"""The figures that the literature on mixed precision and accumulation gives come out of the replay.

(3, 4) with M = 1 and S = 8 for a single micro-batch; g = 1, 2, 3 with K = 3 and S = 8 for a window.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ampcheck.replay import SCENARIOS, Observed, Scenario, measure
from ampcheck.trace import Trace
from tests.replay.correct_loops import CORRECT
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import replayed

DOCUMENTS = next(s for s in SCENARIOS if s.name == "documents")

CLIP_SCALED = FAULTS["1 clip before unscale"].trace
CLIP = CORRECT["clipped"]

EXPERIMENTS: dict[str, tuple[Trace, Scenario]] = {
    "clip before unscale": (CLIP_SCALED, DOCUMENTS),
    "clip after unscale": (CLIP, DOCUMENTS),
    **{f"clip before unscale at {s}": (CLIP_SCALED, replace(DOCUMENTS, scale=s)) for s in (1.0, 64.0)},
    **{f"clip after unscale at {s}": (CLIP, replace(DOCUMENTS, scale=s)) for s in (1.0, 64.0)},
    "clip before unscale of zero": (CLIP_SCALED, Scenario("g = 0", "zero")),
    "clip after unscale of zero": (CLIP, Scenario("g = 0", "zero")),
    "clip before unscale, below M/S": (CLIP_SCALED, replace(DOCUMENTS, data="quiet", scale=1 / 64)),
    "clip after unscale, below M/S": (CLIP, replace(DOCUMENTS, data="quiet", scale=1 / 64)),
    "accumulated": (CORRECT["accumulated, K = 3, unclipped"], DOCUMENTS),
    "not divided": (FAULTS["29 not divided by K"].trace, DOCUMENTS),
    "value clip": (CORRECT["clipped by value"], DOCUMENTS),
    "value clip before unscale": (FAULTS["2 value clip before unscale"].trace, DOCUMENTS),
    "clip per parameter": (FAULTS["47 clip per parameter"].trace, DOCUMENTS),
    "mixed units": (FAULTS["6 unscale on the first micro-batch only"].trace, DOCUMENTS),
    "schedule at the boundary": (CORRECT["accumulated, K = 4"], DOCUMENTS),
    "schedule on every micro-batch": (FAULTS["39 schedule on every micro-batch"].trace, DOCUMENTS),
}


@pytest.fixture(scope="module")
def seen() -> dict[str, Observed]:
    return dict(zip(EXPERIMENTS, measure(list(EXPERIMENTS.values()), "cpu"), strict=True))


@pytest.fixture(scope="module")
def first(seen) -> dict[str, list[float]]:
    """The gradient at the first step of each."""
    return {name: observed.gradient["optimizer"][0] for name, observed in seen.items()}


def test_clip_before_unscale_leaves_an_eighth_of_the_norm(first):
    assert first["clip before unscale"] == pytest.approx([0.075, 0.1])
    assert math.hypot(*first["clip before unscale"]) == pytest.approx(0.125)


def test_clip_after_unscale_leaves_the_threshold(first):
    assert first["clip after unscale"] == pytest.approx([0.6, 0.8])
    assert math.hypot(*first["clip after unscale"]) == pytest.approx(1.0)


@pytest.mark.parametrize(("where", "norm"), [(" at 1.0", 1.0), ("", 1 / 8), (" at 64.0", 1 / 64)])
def test_the_clipped_norm_follows_the_scale(where, norm, first):
    assert math.hypot(*first[f"clip before unscale{where}"]) == pytest.approx(norm)
    assert math.hypot(*first[f"clip after unscale{where}"]) == pytest.approx(1.0)


def test_the_zero_vector_stays_zero(first):
    assert first["clip before unscale of zero"] == first["clip after unscale of zero"] == [0.0, 0.0]


def test_where_nothing_is_clipped_wrong_and_right_agree(first):
    assert first["clip before unscale, below M/S"] == first["clip after unscale, below M/S"]


def test_an_accumulated_window_carries_16_and_steps_with_2(seen, first):
    assert seen["accumulated"].carried["optimizer"][0] == [16.0, 0.0]
    assert first["accumulated"] == [2.0, 0.0]


def test_without_the_division_it_carries_48_and_steps_with_6(seen, first):
    assert seen["not divided"].carried["optimizer"][0] == [48.0, 0.0]
    assert first["not divided"] == [6.0, 0.0]


def test_a_value_clip_gives_one_and_one(first):
    assert first["value clip"] == [1.0, 1.0]
    assert first["value clip before unscale"] == [0.125, 0.125]


def test_per_parameter_clipping_gives_the_square_root_of_two(first):
    assert first["clip per parameter"] == pytest.approx([1.0, 1.0])
    assert math.hypot(*first["clip per parameter"]) == pytest.approx(math.sqrt(2))


def test_mixed_units_give_13_667(first):
    assert first["mixed units"][0] == pytest.approx(13.667, abs=5e-4)


def test_eight_micro_batches_in_windows_of_four_make_two_scheduler_steps(seen):
    right, wrong = seen["schedule at the boundary"], seen["schedule on every micro-batch"]
    assert (right.schedule, right.steps) == ({"scheduler": 2}, {"optimizer": 2})
    assert (wrong.schedule, wrong.steps) == ({"scheduler": 8}, {"optimizer": 2})


def test_the_line_for_people_says_where_wrong_and_right_agree():
    text = replayed({"clip": (CLIP_SCALED, ("gradient",))})["clip"].text
    assert text == (
        "norm at step 0.125 = M/S, expected 1.0: (0.075, 0.1) for (0.6, 0.8); "
        "norm at S = 1, 8, 64: 1.0, 0.125, 0.015625; wrong and right agree at S = 1 and at g = 0; "
        "M = 1 as in the code"
    )


def test_the_reference_of_a_faulty_loop_has_the_right_figures(first):
    reference = measure([(CLIP_SCALED, DOCUMENTS)], "cpu", reference=True)[0]
    assert reference.gradient["optimizer"][0] == first["clip after unscale"]
