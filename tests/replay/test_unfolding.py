"""Tests that the replay makes itself need both of their arms in every iteration."""

from __future__ import annotations

from ampcheck import events as ev
from ampcheck.replay import compare
from ampcheck.replay.jumps import with_jump_at_boundary
from ampcheck.replay.unfolding import unfold
from ampcheck.trace import Trace
from tests.replay.oracles import replayed
from tests.tracing import (
    Item,
    backward,
    boundary,
    build,
    choice,
    clip,
    finite,
    jump,
    loop,
    raw_step,
    read_scale,
    scale_test,
    schedule,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

NORM = "isfinite of the gradients' norm"


def gives_up(*on_bad_norm: Item, deviating: int = 1) -> Trace:
    """unscale_, clip, ``if not isfinite(norm): ...; continue``, step, update; one iteration has a bad norm."""

    def body(i: int) -> list[Item]:
        start = [zero(), backward(), unscale(), clip()]
        if i == deviating:
            return [*start, *when(finite(False, NORM), *on_bad_norm, jump())]
        return [*start, *when(finite(True, NORM), step(), update())]

    return trace(loop(body))


def _schedules_but_once(i: int) -> list[Item]:
    items = [backward(), read_scale("before"), step(), update(), read_scale("after"), zero()]
    return items if i == 1 else [*items, *when(scale_test("after", ">=", "before"), schedule())]


def _schedules_but_once_by_norm(i: int) -> list[Item]:
    items = [zero(), backward(), unscale(), clip(), step(), update()]
    return items if i == 0 else [*items, *when(finite(True, NORM), schedule())]


SCALED_STEP = trace(loop([backward(), unscale(), *when(finite(True, NORM), step(), update()), zero()]))
RAW_STEP = trace(loop([backward(), unscale(), *when(finite(True, NORM), raw_step()), update(), zero()]))
ZEROED_BEFORE_THE_TEST = trace(
    loop(
        [
            backward(),
            unscale(),
            clip(),
            step(),
            update(),
            zero(),
            *when(finite(True, NORM), schedule()),
        ]
    )
)
HAND_MADE = trace(
    loop(
        [zero("inner"), backward("inner", "outer", scaler=None, assumed=["outer"]), raw_step("inner")],
        epoch_end=[raw_step("outer")],
    )
)


def test_each_iteration_gets_both_arms():
    unfolded = unfold(gives_up(update()))
    assert unfolded.tests == {NORM}
    updates = [r for r in unfolded.user.records if isinstance(r.event, ev.Update)]
    assert len(updates) == 28
    assert not [r for r in unfolded.normal.records if isinstance(r.event, ev.Jump)]
    assert sum(isinstance(r.event, ev.Step) for r in unfolded.normal.records) == 14


def test_giving_up_without_an_update_raises():
    result = replayed({"no update": (gives_up(), ("exception",))})["no update"]
    assert result.outcome == "confirmed"
    assert "unscale_() has already been called" in result.text
    assert "in an overflow run" in result.text


def test_a_test_that_never_fails_is_not_made_unless_it_guards_a_raw_step():
    assert unfold(SCALED_STEP).tests == frozenset()
    assert unfold(RAW_STEP).tests == {NORM}


def test_a_schedule_that_the_run_left_out_somewhere_is_put_back():
    subject = trace(loop(_schedules_but_once))
    assert sum(isinstance(r.event, ev.ScheduleStep) for r in subject.records) == 12
    assert sum(isinstance(r.event, ev.ScheduleStep) for r in unfold(subject).user.records) == 14


def test_a_jump_is_moved_to_where_its_window_should_end():
    def body(i: int) -> list[Item]:
        if i == 1:
            return when(choice("sample is None", varying=True), jump())
        return [backward(divided=True), *when(boundary(i % 3 == 2), step(), update(), zero())]

    subject = trace(loop(body), window=3)
    place = next(r.index for r in subject.records if isinstance(r.event, ev.Jump))
    moved = with_jump_at_boundary(subject, place)
    jumps = [r.iteration for r in moved.records if isinstance(r.event, ev.Jump)]
    assert jumps[0] == (0, 2)
    steps = [r.micro for r in moved.records if isinstance(r.event, ev.Step)]
    assert steps[0] == 4
    assert with_jump_at_boundary(subject, 0) is subject


def test_one_role_for_a_list_of_optimizers_steps_once():
    several = [build("optimizers", "optimizer")] * 2
    body = [
        zero("optimizers"),
        backward("optimizers", scaler=None),
        raw_step("optimizers"),
        raw_step("optimizers"),
    ]
    subject = trace([*several, *loop(body)])
    assert sum(isinstance(r.event, ev.Step) for r in unfold(subject).user.records) == 14


def test_gradients_that_are_only_assumed_are_left_out_beside_certain_ones():
    reached = {r.event.reaches for r in unfold(HAND_MADE).user.records if isinstance(r.event, ev.Backward)}
    assert reached == {("inner",)}


def test_unfolded_correct_loops_agree_with_a_reference():
    but_once = trace(loop(_schedules_but_once_by_norm))
    assert unfold(but_once).tests == {NORM}
    once_by_scale = trace(loop(_schedules_but_once))
    given_up = gives_up(update())
    subjects = [but_once, once_by_scale, given_up, ZEROED_BEFORE_THE_TEST, SCALED_STEP, RAW_STEP, HAND_MADE]
    assert compare(subjects, "cpu") == ({},) * len(subjects)
