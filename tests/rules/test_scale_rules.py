"""AMP101, 103-116, 118 and 123 on traces built by hand: what they find, where, and what they leave alone.

Every test runs all of these rules, so that it also says that the others are silent: one mistake, one finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampcheck.registry import built_in
from ampcheck.rule import OBSERVABLES, Rule, Violation
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    backward,
    boundary,
    build,
    choice,
    clip,
    edit,
    escape,
    finite,
    jump,
    loop,
    part,
    raw_step,
    read,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

CODES = {f"AMP{number}" for number in (101, *range(103, 117), 118, 123)}
RULES = tuple(rule for rule in built_in() if rule.code in CODES)


def violations(subject: Trace) -> list[tuple[str, Violation]]:
    return [(rule.code, violation) for rule in RULES for violation in rule.check(subject)]


def found(subject: Trace) -> list[tuple[str, Item]]:
    """Code and event of every certain violation; fails where one is only possible."""
    assert all(violation.certain for _, violation in violations(subject))
    return [(code, Item(subject.records[v.record].event)) for code, v in violations(subject)]


def sites(*pairs: tuple[str, Item]) -> list[tuple[str, object]]:
    return [(code, item.event.site) for code, item in pairs]


def assert_finds(subject: Trace, code: str, at: Item) -> Violation:
    """Exactly one certain violation, of this code, at this statement."""
    assert sites(*found(subject)) == sites((code, at))
    ((_, violation),) = violations(subject)
    assert "expected" in violation.message or ": " in violation.message
    assert violation.steps == tuple(sorted(set(violation.steps)))
    return violation


def kinds(subject: Trace, violation: Violation) -> list[str]:
    return [type(subject.records[i].event).__name__ for i in violation.steps]


def assert_silent(subject: Trace) -> None:
    assert violations(subject) == []


def every_third(*always: Item, at_boundary: Sequence[Item]) -> Trace:
    def body(i: int) -> list[Item]:
        return [*always, *when(boundary((i + 1) % 3 == 0), *at_boundary)]

    return trace(loop(body), window=3)


# --- the loops that are right ---


def test_plain_loop() -> None:
    assert_silent(trace(loop([zero(), backward(), step(), update()])))


def test_clipped_loop_with_zero_last() -> None:
    assert_silent(trace(loop([backward(), unscale(), clip(), step(), update(), zero()])))


def test_accumulated_loop() -> None:
    end = [unscale(), clip(), edit("shift"), edit("hide"), step(), update(), zero()]
    assert_silent(every_third(backward(divided=True), at_boundary=end))


def test_loop_without_scaler() -> None:
    assert_silent(trace(loop([zero(), backward(scaler=None), clip(), edit("shift"), raw_step()])))


def test_leftover_window_is_flushed_after_the_loop() -> None:
    def body(i: int) -> list[Item]:
        end = [unscale(), clip(), step(), update(), zero()]
        return [backward(divided=True), *when(boundary((i + 1) % 3 == 0), *end)]

    flush = [unscale(), clip(), step(), update(), zero()]
    assert_silent(trace(loop(body, epoch_end=flush), window=3))


def test_gan_that_updates_once() -> None:
    body = [
        zero("d"), backward("d"), unscale("d"), clip("d"), step("d"),
        zero("g"), backward("g", "d"), unscale("g"), clip("g"), step("g"), update(),
    ]  # fmt: skip
    assert_silent(trace(loop(body)))


def test_gan_that_updates_after_each_phase() -> None:
    body = [zero("d"), backward("d"), step("d"), update(), zero("g"), backward("g"), step("g"), update()]
    assert_silent(trace(loop(body)))


def test_two_scalers_one_each() -> None:
    body = [
        zero("d"), backward("d", scaler="s_d"), step("d", "s_d"), update("s_d"),
        zero("g"), backward("g", scaler="s_g"), step("g", "s_g"), update("s_g"),
    ]  # fmt: skip
    assert_silent(trace(loop(body)))


def test_unscale_both_then_step_both() -> None:
    body = [zero("a", "b"), backward("a", "b"), unscale("a"), unscale("b"), step("a"), step("b"), update()]
    assert_silent(trace(loop(body)))


def test_one_unscale_forgotten_and_nothing_read() -> None:
    body = [zero("a", "b"), backward("a", "b"), unscale("a"), clip("a"), step("a"), step("b"), update()]
    assert_silent(trace(loop(body)))


def test_sam_with_two_updates() -> None:
    body = [backward(), unscale(), zero(), update(), backward(), unscale(), step(), update(), zero()]
    assert_silent(trace(loop(body)))
    body = [backward(), step(), update(), zero(), backward(), step(), update(), zero()]
    assert_silent(trace(loop(body)))


def test_own_norm_test_skips_the_step() -> None:
    def body(i: int) -> list[Item]:
        ok = finite(i % 3 != 1, "torch.isfinite(norm)")
        return [zero(), backward(), unscale(), clip(), *(when(ok, step()) if ok.holds else []), update()]

    assert_silent(trace(loop(body)))


def test_own_norm_test_skips_step_and_zeroing_but_not_update() -> None:
    # The gradients that are kept are another rule's business (AMP313).
    def body(i: int) -> list[Item]:
        ok = finite(i % 3 != 1, "torch.isfinite(norm)")
        return [backward(), unscale(), *(when(ok, step(), zero()) if ok.holds else []), update()]

    assert_silent(trace(loop(body)))


@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_a_new_scale_may_be_set_anywhere(place: int) -> None:
    # But not between a step and its update, which then finds nothing to judge by: torch raises.
    body = [zero(), backward(), step(), update()]
    body.insert(place, update(explicit=True))
    assert_silent(trace(loop(body)))


def test_optimizer_that_steps_before_any_gradient_exists() -> None:
    assert_silent(trace(loop([zero(), backward(), step(), update()], before=[raw_step()])))


def test_masks_and_division_of_scaled_gradients() -> None:
    by_window = edit("multiply", factor=part(window=-1))
    assert_silent(
        every_third(backward(), edit("multiply"), at_boundary=[by_window, step(), update(), zero()])
    )


def test_unscaled_and_rescaled_by_hand() -> None:
    by_hand = edit("multiply", factor=replace(part(), scale=(("scaler", -1),)))
    assert_silent(trace(loop([zero(), backward(), by_hand, clip(), raw_step()])))
    rescale = edit("multiply", factor=part("scaler"))
    assert_silent(trace(loop([zero(), backward(scaler=None), rescale, step(), update()])))


def test_unscaled_loss_added_after_unscale() -> None:
    body = [zero(), backward(), unscale(), backward(scaler=None, micro=0), clip(), step(), update()]
    assert_silent(trace(loop(body)))


def test_fresh_scaler_in_every_iteration_needs_no_update() -> None:
    assert_silent(trace(loop([build("scaler", "scaler"), zero(), backward(), unscale(), clip(), step()])))


def test_the_run_ends_without_update() -> None:
    assert_silent(trace([backward(), unscale(), clip(), step()]))


def test_optimizer_without_gradients_in_this_iteration() -> None:
    body = [zero("d", "g"), backward("d"), unscale("d"), unscale("g"), step("d"), update()]
    assert_silent(trace(loop(body)))


def test_tail_of_a_step_says_nothing_that_its_caller_alone_knows() -> None:
    for tail in ([unscale(), clip(), step()], [update()], [step(), step("other")], [unscale(), update()]):
        assert_silent(trace(tail, complete=False))


@pytest.mark.parametrize("role", ["scaler", "optimizer"])
def test_unseen_code_may_have_done_it(role: str) -> None:
    assert_silent(trace(loop([zero(), backward(), escape(role), clip(), step(), update()])))
    assert_silent(trace(loop([zero(), backward(), escape(role), unscale(), step(), escape(role)])))
    assert_silent(trace(loop([zero(), backward(), escape(role), update()])))
    assert_silent(trace(loop([zero(), backward(), unscale(), escape(role), unscale(), step(), update()])))


# --- AMP101, 103, 118 ---


@pytest.mark.parametrize("style", ["norm", "value"])
@pytest.mark.parametrize("by", ["torch", "hand", "hook"])
def test_clip_before_unscale(style, by) -> None:
    wrong = clip(style=style, by=by)
    subject = trace(loop([zero(), backward(), wrong, step(), update()]))
    violation = assert_finds(subject, "AMP101", wrong)
    assert "gradients of `optimizer` are clipped while they still carry the loss scale" in violation.message
    assert "M / S" in violation.message
    assert kinds(subject, violation) == ["Backward", "Step"]


def test_clip_before_its_unscale() -> None:
    wrong = clip()
    assert_finds(trace(loop([zero(), backward(), wrong, unscale(), step(), update()])), "AMP101", wrong)


def test_clip_before_unscale_at_the_boundary_names_all_backwards() -> None:
    wrong = clip()
    subject = every_third(backward(divided=True), at_boundary=[wrong, step(), update(), zero()])
    violation = assert_finds(subject, "AMP101", wrong)
    assert kinds(subject, violation) == ["Backward", "Backward", "Backward", "Step"]


def test_clip_of_one_optimizer_while_the_other_is_unscaled() -> None:
    wrong = clip("b")
    body = [
        zero("a", "b"),
        backward("a", "b"),
        unscale("a"),
        clip("a"),
        wrong,
        step("a"),
        step("b"),
        update(),
    ]
    assert_finds(trace(loop(body)), "AMP101", wrong)


def test_joint_clip_after_partial_unscale_is_not_101() -> None:
    body = [zero("a", "b"), backward("a", "b"), unscale("a"), clip("a", "b"), step("a"), step("b"), update()]
    assert_silent(trace(loop(body)))


def test_clip_inside_the_window_is_not_101_when_the_last_one_is_right() -> None:
    def body(i: int) -> list[Item]:
        at = boundary((i + 1) % 3 == 0)
        return [backward(divided=True), *when(at, unscale()), clip(), *when(at, step(), update(), zero())]

    assert_silent(trace(loop(body), window=3))


def test_infinite_threshold_is_a_measurement() -> None:
    assert_silent(trace(loop([zero(), backward(), clip(threshold=float("inf")), step(), update()])))


def test_clip_in_a_tail_whose_gradients_are_scaled() -> None:
    wrong = clip()
    assert_finds(trace([backward(), wrong], complete=False), "AMP101", wrong)


@pytest.mark.parametrize("effect", ["shift", "nonlinear"])
def test_edit_before_unscale(effect) -> None:
    wrong = edit(effect)
    subject = trace(loop([zero(), backward(), wrong, step(), update()]))
    assert kinds(subject, assert_finds(subject, "AMP103", wrong)) == ["Backward", "Step"]


def test_overflow_hidden() -> None:
    wrong = edit("hide")
    subject = trace(loop([zero(), backward(), wrong, unscale(), clip(), step(), update()]))
    assert "`scaler`" in assert_finds(subject, "AMP118", wrong).message


@pytest.mark.parametrize("between", [clip(), clip(style="value"), edit("shift"), edit("hide")])
def test_missing_unscale_before_a_raw_step_is_the_steps_fault(between: Item) -> None:
    wrong = raw_step()
    assert_finds(trace(loop([zero(), backward(), between, wrong])), "AMP113", wrong)


def test_weak_knowledge_makes_it_possible() -> None:
    unknown = Role("scaler", "scaler", "scaler", known=False)
    body = [zero(), backward(), clip(), step(), update()]
    ((code, violation),) = violations(trace(loop(body), roles=[unknown]))
    assert code == "AMP101"
    assert not violation.certain
    guessed = [zero(), backward(assumed=["optimizer"]), clip(), step(), update()]
    ((code, violation),) = violations(trace(loop(guessed)))
    assert code == "AMP101"
    assert not violation.certain


# --- AMP104 ---


def test_unscale_before_backward() -> None:
    wrong = unscale()
    subject = trace(loop([zero(), wrong, backward(), clip(), step(), update()]))
    violation = assert_finds(subject, "AMP104", wrong)
    assert kinds(subject, violation) == ["Backward", "Step", "Update"]


def test_unscale_before_zero_and_backward() -> None:
    wrong = unscale()
    assert_finds(trace(loop([wrong, zero(), backward(), clip(), step(), update()])), "AMP104", wrong)


def test_unscale_for_the_next_window() -> None:
    wrong = unscale()
    assert_finds(trace(loop([backward(), step(), update(), zero(), wrong])), "AMP104", wrong)


def test_scaled_step_before_backward() -> None:
    wrong = step()
    assert_finds(trace(loop([wrong, update(), zero(), backward()])), "AMP104", wrong)


def test_unscale_before_the_loop_is_one_mistake() -> None:
    """The clips that see scaled gradients because of it are no mistakes of their own."""
    wrong = unscale()
    body = [zero(), backward(), clip(), step(), update()]
    assert_finds(trace(loop(body, epoch_start=[wrong])), "AMP104", wrong)


def test_step_before_the_loop() -> None:
    wrong = step()
    body = [zero(), backward(), unscale(), clip(), update()]
    assert_finds(trace(loop(body, epoch_start=[wrong])), "AMP104", wrong)


def test_a_step_that_may_wait_for_gradients_is_possible() -> None:
    late = when(choice("has_gradients", varying=True), step(), update(), zero())
    ((code, violation),) = violations(trace(loop([*late, backward()])))
    assert (code, violation.certain) == ("AMP104", False)


def test_zeroed_gradients_are_not_premature() -> None:
    assert_silent(trace(loop([backward(), zero(), unscale(), step(), update()])))
    assert_silent(trace(loop([zero(), unscale(), clip(), step(), update(), backward()])))


# --- AMP105 ---


def test_unscale_on_every_micro_batch() -> None:
    wrong = unscale()
    subject = every_third(backward(divided=True), wrong, at_boundary=[clip(), step(), update(), zero()])
    violation = assert_finds(subject, "AMP105", wrong)
    assert kinds(subject, violation) == ["Backward", "Backward", "Unscale", "Step", "Update"]


def test_unscale_and_update_on_every_micro_batch() -> None:
    wrong = unscale()
    subject = every_third(backward(divided=True), wrong, update(), at_boundary=[step(), zero()])
    assert_finds(subject, "AMP105", wrong)


def test_unscale_on_an_early_micro_batch_only() -> None:
    wrong = unscale()

    def body(i: int) -> list[Item]:
        end = when(boundary((i + 1) % 3 == 0), clip(), step(), update(), zero())
        return [backward(divided=True), *when(boundary(i % 3 == 0, "i % k == 0"), wrong), *end]

    assert_finds(trace(loop(body), window=3), "AMP105", wrong)


def test_unscale_before_a_continue_at_the_boundary() -> None:
    wrong, leave, end = unscale(), jump(), [clip(), step(), update(), zero()]

    def body(i: int) -> list[Item]:
        within = boundary((i + 1) % 3 != 0, "(i + 1) % k != 0")
        return [backward(divided=True), wrong, *(when(within, leave) if within.holds else end)]

    assert_finds(trace(loop(body), window=3), "AMP105", wrong)


def test_unscale_between_two_losses() -> None:
    wrong = unscale()
    assert_finds(trace(loop([zero(), backward(), wrong, backward(), step(), update()])), "AMP105", wrong)


# --- AMP106, 107 ---


def test_second_unscale() -> None:
    first, wrong = unscale(), unscale()
    subject = trace(loop([zero(), backward(), first, wrong, clip(), step(), update()]))
    violation = assert_finds(subject, "AMP106", wrong)
    assert kinds(subject, violation) == ["Backward", "Unscale"]


def test_one_statement_unscaling_twice_is_possible() -> None:
    again = unscale()
    ((code, violation),) = violations(trace(loop([zero(), backward(), again, again, step(), update()])))
    assert code == "AMP106"
    assert not violation.certain


def test_update_between_unscale_and_step() -> None:
    wrong = step()
    subject = trace(loop([zero(), backward(), unscale(), clip(), update(), wrong]))
    violation = assert_finds(subject, "AMP106", wrong)
    assert kinds(subject, violation) == ["Backward", "Unscale", "Update"]


def test_update_between_unscale_and_two_steps_is_one_mistake() -> None:
    wrong = step("a")
    body = [zero("a", "b"), backward("a", "b"), unscale("a"), unscale("b"), update(), wrong, step("b")]
    assert_finds(trace(loop(body)), "AMP106", wrong)


@pytest.mark.parametrize("again", [[], [unscale()]])
def test_divided_by_hand_and_by_the_scaler(again: list[Item]) -> None:
    by_hand = edit("multiply", factor=replace(part(), scale=(("scaler", -1),)))
    last = step()
    subject = trace(loop([zero(), backward(), by_hand, clip(), *again, last, update()]))
    assert_finds(subject, "AMP106", again[0] if again else last)


@pytest.mark.parametrize("between", [[], [update()]])
def test_unscale_after_step(between: list[Item]) -> None:
    wrong = unscale()
    after = [] if between else [update()]
    assert_finds(trace(loop([zero(), backward(), step(), *between, wrong, *after])), "AMP107", wrong)


def test_unscale_after_clip_and_step_is_one_mistake() -> None:
    wrong = unscale()
    assert_finds(trace(loop([zero(), backward(), clip(), step(), wrong, update()])), "AMP107", wrong)


# --- AMP108 ---


@pytest.mark.parametrize("between", [[], [update()], [zero()], [update(), zero()]])
def test_second_scaled_step(between: list[Item]) -> None:
    wrong = step()
    subject = trace(loop([zero(), backward(), step(), *between, wrong, update(explicit=True)]))
    assert_finds(subject, "AMP108", wrong)


def test_scaled_and_raw_step() -> None:
    for first, second in ((step(), raw_step()), (raw_step(), step())):
        subject = trace(loop([zero(), backward(), first, second, update()]))
        assert "both steps are taken" in assert_finds(subject, "AMP108", second).message
        unscaled = trace(loop([zero(), backward(), unscale(), first, second, update()]))
        assert_finds(unscaled, "AMP108", second)


def test_two_raw_steps() -> None:
    wrong = raw_step()
    assert_finds(trace(loop([zero(), backward(scaler=None), raw_step(), wrong])), "AMP108", wrong)
    edited = [zero(), backward(scaler=None), raw_step(), edit("shift"), raw_step()]
    assert_silent(trace(loop(edited)))
    closures = [zero(), backward(scaler=None), raw_step(closure=True), raw_step(closure=True)]
    assert_silent(trace(loop(closures)))


def test_step_on_every_micro_batch_with_the_update_at_the_boundary() -> None:
    wrong = step()
    subject = every_third(backward(divided=True), wrong, at_boundary=[update(), zero()])
    violation = assert_finds(subject, "AMP108", wrong)
    assert kinds(subject, violation) == ["Backward", "Step", "Backward", "Update"]


def test_step_and_update_on_every_micro_batch_is_not_108() -> None:
    assert_silent(every_third(backward(divided=True), step(), update(), at_boundary=[zero()]))


# --- AMP109, 110, 111 ---


def test_update_on_every_micro_batch() -> None:
    wrong = update()

    def body(i: int) -> list[Item]:
        return [backward(divided=True), *when(boundary((i + 1) % 3 == 0), step(), zero()), wrong]

    subject = trace(loop(body), window=3)
    assert kinds(subject, assert_finds(subject, "AMP109", wrong)) == ["Backward", "Step"]


def test_update_before_the_boundary_is_one_mistake() -> None:
    wrong = update()
    subject = every_third(backward(divided=True), wrong, at_boundary=[step(), zero()])
    assert_finds(subject, "AMP109", wrong)


def test_update_between_steps() -> None:
    wrong = update()
    subject = trace(loop([zero("a", "b"), backward("a", "b"), step("a"), wrong, step("b"), update()]))
    violation = assert_finds(subject, "AMP110", wrong)
    assert kinds(subject, violation) == ["Backward", "Step", "Step", "Update"]


def test_update_between_steps_of_unscaled_gradients() -> None:
    wrong = update()
    body = [
        zero("a", "b"),
        backward("a", "b"),
        unscale("a"),
        unscale("b"),
        step("a"),
        wrong,
        step("b"),
        update(),
    ]
    assert assert_finds(trace(loop(body)), "AMP110", wrong).predicts == "1/S"


def test_update_too_early() -> None:
    wrong = update()
    subject = trace(loop([zero(), backward(), wrong, step()]))
    assert "before its step" in assert_finds(subject, "AMP111", wrong).message


def test_second_update() -> None:
    wrong = update()
    subject = trace(loop([zero(), backward(), step(), update(), wrong]))
    assert "a second time" in assert_finds(subject, "AMP111", wrong).message


def test_update_without_any_step_is_possible() -> None:
    """The step may hide in a call that is not understood."""
    ((code, violation),) = violations(trace(loop([zero(), backward(), update()])))
    assert (code, violation.certain) == ("AMP111", False)


def test_raw_step_and_update() -> None:
    wrong = raw_step()
    assert_finds(trace(loop([zero(), backward(), wrong, update()])), "AMP113", wrong)


# --- AMP112 ---


def test_no_update_after_the_step() -> None:
    wrong = step()
    subject = trace(loop([zero(), backward(), wrong]))
    violation = assert_finds(subject, "AMP112", wrong)
    assert kinds(subject, violation) == ["Backward", "Step", "Backward", "Step"]


def test_no_update_in_a_window() -> None:
    wrong = step()
    assert_finds(every_third(backward(), at_boundary=[unscale(), clip(), wrong, zero()]), "AMP112", wrong)


def test_no_update_after_two_steps_is_reported_at_the_last() -> None:
    wrong = step("g")
    body = [zero("d"), backward("d"), step("d"), zero("g"), backward("g"), wrong]
    assert_finds(trace(loop(body)), "AMP112", wrong)


@pytest.mark.parametrize("zeroed_first", [True, False])
def test_continue_after_unscale_jumps_over_the_update(zeroed_first: bool) -> None:
    wrong, rest = jump(), [step(), update()]

    def body(i: int) -> list[Item]:
        bad = finite(i % 3 == 1, "not isfinite(norm)")
        start = [zero(), backward()] if zeroed_first else [backward()]
        end = when(bad, wrong) if bad.holds else [*rest, *([] if zeroed_first else [zero()])]
        return [*start, unscale(), clip(), *end]

    violation = assert_finds(trace(loop(body)), "AMP112", wrong)
    assert "`continue` jumps over the update" in violation.message


def test_a_jump_is_not_to_blame_where_nothing_updates() -> None:
    wrong, leave = step(), jump()

    def body(i: int) -> list[Item]:
        return [zero(), backward(), wrong, *when(choice("not log", varying=True), leave)]

    assert_finds(trace(loop(body)), "AMP112", wrong)


def test_skipped_step_without_update() -> None:
    wrong = unscale()

    def body(i: int) -> list[Item]:
        ok = finite(i % 3 != 1, "isfinite(norm)")
        return [zero(), backward(), wrong, clip(), *(when(ok, step(), update()) if ok.holds else [])]

    assert_finds(trace(loop(body)), "AMP112", wrong)


def test_unscale_for_reading_only_and_no_update() -> None:
    # The first window of each pair is only looked at; the next step then takes its gradients for unscaled.
    wrong = unscale()

    def body(i: int) -> list[Item]:
        return [zero(), backward(), *([wrong, read()] if i % 2 == 0 else [step(), update()])]

    assert "sees S·g" in assert_finds(trace(loop(body)), "AMP112", wrong).message


# --- AMP113, 114, 115, 116, 123 ---


def test_raw_step_on_scaled_gradients() -> None:
    wrong = raw_step()
    subject = every_third(backward(divided=True), at_boundary=[wrong, zero()])
    violation = assert_finds(subject, "AMP113", wrong)
    assert kinds(subject, violation) == ["Backward"] * 3


def test_raw_step_of_one_of_two_optimizers() -> None:
    wrong = raw_step("b")
    body = [zero("a", "b"), backward("a", "b"), step("a"), wrong, update()]
    assert_finds(trace(loop(body)), "AMP113", wrong)


def test_raw_step_of_something_called_optimizer_is_possible() -> None:
    unknown = Role("optimizer", "optimizer", "optimizer", known=False)
    ((code, violation),) = violations(trace(loop([zero(), backward(), raw_step()]), roles=[unknown]))
    assert code == "AMP113"
    assert not violation.certain


def test_scaler_step_on_a_plain_loss() -> None:
    wrong = step()
    for body in (
        [zero(), backward(scaler=None), wrong, update()],
        [zero(), backward(scaler=None), unscale(), clip(), wrong, update()],
        [zero(), backward(), backward(scaler=None), wrong, update()],
        [zero(), backward(parts=[part("scaler"), part()]), wrong, update()],
    ):
        assert_finds(trace(loop(body)), "AMP114", wrong)


def test_plain_loss_of_two_optimizers_is_one_mistake() -> None:
    wrong = step("a")
    body = [zero("a", "b"), backward("a", "b", scaler=None), wrong, step("b"), update()]
    assert_finds(trace(loop(body)), "AMP114", wrong)


@pytest.mark.parametrize("end", [[], [unscale(), clip()]])
def test_double_scaling(end: list[Item]) -> None:
    for parts in ([part("scaler", "scaler")], [part("scaler", "engine")]):
        wrong = backward(parts=parts)
        subject = trace(loop([zero(), wrong, *end, step(), update()]))
        assert kinds(subject, assert_finds(subject, "AMP115", wrong)) == ["Step"]


@pytest.mark.parametrize("end", [[], [unscale(scaler="s_b"), clip()]])
def test_crossed_scalers(end: list[Item]) -> None:
    wrong = step(scaler="s_b")
    subject = trace(loop([zero(), backward(scaler="s_a"), *end, wrong, update("s_b")]))
    violation = assert_finds(subject, "AMP116", wrong)
    assert "`s_b` steps `optimizer` on gradients scaled by `s_a`" in violation.message


def test_raw_step_after_unscale() -> None:
    wrong = raw_step()
    subject = trace(loop([zero(), backward(), unscale(), clip(), wrong, update()]))
    violation = assert_finds(subject, "AMP123", wrong)
    assert kinds(subject, violation) == ["Backward", "Unscale", "Update"]


def test_raw_step_after_unscale_and_a_test_of_ones_own() -> None:
    def body(i: int) -> list[Item]:
        ok = finite(i % 3 != 1, "isfinite(norm)")
        return [zero(), backward(), unscale(), *(when(ok, raw_step()) if ok.holds else []), update()]

    assert_silent(trace(loop(body)))


# --- the rules themselves ---


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule: Rule) -> None:
    page = rule.__doc__ or ""
    headings = [line.strip() for line in page.splitlines() if line.strip().startswith("## ")]
    assert headings == [
        "## What it does",
        "## Why is this bad",
        "## Example",
        "## Use instead",
        "## Known problems",
        "## References",
    ]
    assert page.count("```python") == 2
    assert set(rule.oracle) <= set(OBSERVABLES)
    assert rule.oracle
    assert rule.hint
