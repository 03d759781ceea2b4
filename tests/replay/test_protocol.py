"""The order of a correct step, as references spell it out for loops that do not keep it."""

from __future__ import annotations

from collections.abc import Sequence

from ampcheck import events as ev
from ampcheck.protocol import Act
from ampcheck.replay.references import references
from ampcheck.trace import Trace
from tests.tracing import (
    Item,
    average,
    backward,
    boundary,
    clip,
    edit,
    jump,
    loop,
    part,
    raw_step,
    read,
    schedule,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)


def first_reference(subject: Trace) -> tuple[Act, ...]:
    return references(subject, subject.records)[1][0].acts


def order(acts: Sequence[Act], micro: int | None = None) -> list[str]:
    """The acts in short: ``unscale optimizer``."""
    return [
        " ".join(filter(None, [type(a.event).__name__.lower(), getattr(a.event, "optimizer", "")]))
        for a in acts
        if micro is None or a.micro == micro
    ]


def accumulated(*at_boundary: Item, divided: bool = True) -> Trace:
    def body(i: int) -> list[Item]:
        return [backward(divided=divided), *when(boundary((i + 1) % 3 == 0), *at_boundary)]

    return trace(loop(body), window=3)


def test_unscale_stands_before_the_clip_that_looks_at_gradients():
    wrong = trace(loop([backward(), clip(), step(), update(), zero()]))
    assert order(first_reference(wrong), 0) == [
        "backward",
        "unscale optimizer",
        "clip",
        "step optimizer",
        "update",
        "zerograd",
    ]


def test_nothing_is_unscaled_where_nothing_looks():
    wrong = trace(loop([backward(), raw_step(), zero()]))
    assert order(first_reference(wrong), 0) == ["backward", "step optimizer", "update", "zerograd"]


def test_losses_are_divided_by_k_and_the_step_comes_once():
    wrong = accumulated(step(), update(), zero(), divided=False)
    acts = first_reference(wrong)
    assert [a.divisor for a in acts if isinstance(a.event, ev.Backward)][:6] == [3] * 6
    assert [a.micro for a in acts if isinstance(a.event, ev.Step)] == [2, 5, 9, 12]


def test_gradients_divided_by_hand_stay_so():
    late = accumulated(
        unscale(), edit("multiply", factor=part(window=-1)), step(), update(), zero(), divided=False
    )
    acts = first_reference(late)
    assert {a.divisor for a in acts if isinstance(a.event, ev.Backward)} == {1}
    assert order(acts, 2)[:3] == ["backward", "edit", "step optimizer"]


def test_schedule_and_average_come_last_and_the_schedule_only_with_the_step():
    wrong = trace(loop([backward(), schedule(), average(), step(), update(), zero()]))
    acts = first_reference(wrong)
    assert order(acts, 0)[-3:] == ["zerograd", "schedulestep", "averageupdate"]
    assert {a.if_stepped for a in acts if isinstance(a.event, ev.ScheduleStep)} == {("optimizer",)}


def test_optimizers_that_share_a_scaler_share_one_update():
    wrong = trace(loop([backward("a", "b"), step("a"), update(), step("b"), update(), zero("a", "b")]))
    assert order(first_reference(wrong), 0) == ["backward", "step a", "step b", "update", "zerograd"]


def test_a_clip_after_the_step_is_meant_for_the_step_before_it():
    wrong = trace(loop([backward(), step(), clip(), update(), zero()]))
    assert order(first_reference(wrong), 0)[1:4] == ["unscale optimizer", "clip", "step optimizer"]


def test_a_clip_of_another_optimizer_is_meant_for_the_one_that_steps():
    wrong = trace(loop([backward("d"), unscale("d"), clip("g"), step("d"), update(), zero("d")]))
    clips = [a.event for a in first_reference(wrong) if isinstance(a.event, ev.Clip)]
    assert {c.owners for c in clips} == {("d",)}


def test_a_norm_that_is_read_is_read_after_unscale():
    wrong = trace(loop([backward(), read(), step(), update(), zero()]))
    assert order(first_reference(wrong), 0)[:3] == ["backward", "unscale optimizer", "read"]


def test_what_is_left_of_an_epoch_may_be_handled_in_several_ways():
    _, several = references(subject := accumulated(), subject.records)
    assert [r.name for r in several] == [
        "the leftover is carried into the next epoch",
        "windows are counted across epochs",
        "the leftover is dropped",
        "the leftover is flushed, divided by K",
        "the leftover is flushed, divided by its length",
    ]


def test_a_loop_that_steps_like_one_reference_is_held_to_it():
    _, alike = references(subject := accumulated(step(), update(), zero()), subject.records)
    assert [r.name for r in alike] == [
        "the leftover is carried into the next epoch",
        "the leftover is dropped",
    ]


def test_an_iteration_that_is_left_early_still_counts():
    def body(i: int) -> list[Item]:
        return (
            [jump()]
            if i == 1
            else [backward(divided=True), *when(boundary(i % 3 == 2), step(), update(), zero())]
        )

    acts = first_reference(trace(loop(body), window=3))
    assert [a.micro for a in acts if isinstance(a.event, ev.Step)] == [2, 5, 9, 12]
    assert not [a for a in acts if isinstance(a.event, ev.Backward) and a.micro == 1]


def test_synchronised_is_only_the_last_backward_of_a_window():
    acts = first_reference(accumulated(step(), update(), zero()))
    synced = [a.event.synced for a in acts if isinstance(a.event, ev.Backward)]
    assert synced[:6] == [False, False, True, False, False, True]
