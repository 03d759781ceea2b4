"""The rules about clips, windows, synchronisation, schedules and precision, on traces built by hand.

Every rule runs on every trace: a mistake is one finding, and a right shape is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampcheck.events import ZeroGrad
from ampcheck.registry import built_in
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    autocast,
    average,
    backward,
    boundary,
    build,
    choice,
    clip,
    convert,
    deprecated,
    edit,
    escape,
    finite,
    forward,
    jump,
    loop,
    part,
    raw_step,
    read,
    read_scale,
    reduce,
    scale_test,
    schedule,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

CODES = {
    *("AMP201", "AMP202", "AMP203", "AMP204", "AMP205"),
    *("AMP301", "AMP302", "AMP303", "AMP304", "AMP305", "AMP306", "AMP308", "AMP312", "AMP313", "AMP316"),
    *("AMP401", "AMP402", "AMP403", "AMP404", "AMP405"),
    *("AMP501", "AMP502", "AMP503", "AMP504", "AMP505", "AMP506"),
    *("AMP601", "AMP602", "AMP604", "AMP900", "AMP902", "AMP903"),
}
RULES = {rule.code: rule for rule in built_in() if rule.code in CODES}
K = 3
DDP = forward()
UNSYNCED = forward(synced=False)


def found(subject: Trace) -> list[str]:
    """What the rules say: ``AMP201 Clip``, with a question mark where it is only possible."""
    lines = []
    for rule in RULES.values():
        for violation in rule.check(subject):
            record = subject.records[violation.record]
            mark = "" if violation.certain else "?"
            lines.append(f"{rule.code}{mark} {type(record.event).__name__}")
            assert violation.record not in violation.steps, "a story is about the other records"
            assert list(violation.steps) == sorted(set(violation.steps))
            assert violation.message[0].islower() or violation.message[0] in "`1"
    return sorted(lines)


def named(subject: Trace, text: str, literal: bool = False) -> Trace:
    """The same trace with another name for K."""
    assert subject.window is not None
    return replace(subject, window=replace(subject.window, text=text, literal=literal))


def last_of(i: int) -> bool:
    return (i + 1) % K == 0


def windowed(
    *at_boundary: Item,
    every: Sequence[Item] = (),
    top: Sequence[Item] = (),
    divided: int = 1,
    scaler: str | None = "scaler",
) -> list[Item]:
    """A loop with an accumulated backward on each micro-batch and some items at the boundary only."""
    loss = backward(divided=divided, scaler=scaler)

    def body(i: int) -> list[Item]:
        at = boundary(last_of(i))
        return [*top, loss, *when(at, *at_boundary), *every]

    return loop(body)


class TestRightShapes:
    def test_the_plain_loop(self):
        assert not found(trace(loop([backward(), unscale(), clip(), step(), update(), zero()])))

    def test_zeroing_at_the_top_or_between_forward_and_backward(self):
        assert not found(trace(loop([zero(), backward(), unscale(), clip(), step(), update()])))

    def test_accumulation(self):
        body = windowed(unscale(), clip(), step(), update(), zero())
        assert not found(trace(body, window=K))

    def test_zeroing_at_the_start_of_each_window(self):
        def body(i: int) -> list[Item]:
            first = when(boundary(i % K == 0, "i % k == 0"), zero())
            last = when(boundary(last_of(i)), step(), update())
            return [*first, backward(divided=True), *last]

        assert not found(trace(loop(body), window=K, declared={"division", "step", "zero"}))

    def test_zeroing_at_the_start_of_each_epoch_drops_a_leftover_window(self):
        body = loop(
            lambda i: [backward(divided=True), *when(boundary(last_of(i)), step(), update(), zero())],
            epoch_start=[zero()],
        )
        assert not found(trace(body, window=K))
        body = loop(
            lambda i: [backward(divided=True), *when(boundary(last_of(i)), step(), update(), zero())],
            epoch_end=[zero()],
        )
        assert not found(trace(body, window=K))

    def test_flushing_the_leftover_window(self):
        body = loop(
            lambda i: [
                backward(divided=True),
                *when(boundary(last_of(i)), unscale(), clip(), step(), update(), zero()),
            ],
            epoch_end=[unscale(), clip(), step(), update(), zero()],
        )
        assert not found(trace(body, window=K))

    def test_a_flush_in_the_boundary_test(self):
        def body(i: int) -> list[Item]:
            at = boundary(last_of(i) or i == 6, "(i + 1) % k == 0 or i + 1 == len(loader)")
            return [backward(divided=True), *when(at, unscale(), clip(), step(), update(), zero())]

        assert not found(trace(loop(body), window=K))

    def test_gradients_divided_once_before_the_step(self):
        divide = edit("multiply", factor=part(window=-1))
        body = windowed(unscale(), divide, clip(), step(), update(), zero(), divided=0)
        assert not found(trace(body, window=K))

    def test_a_sum_or_another_divisor(self):
        for loss in (backward(reduction="sum"), backward(parts=[part("scaler", other=["tokens"])])):

            def body(i: int, loss: Item = loss) -> list[Item]:
                return [loss, *when(boundary(last_of(i)), step(), update(), zero())]

            assert not found(trace(loop(body), window=K, declared={"step"}))

    def test_several_losses_of_one_update(self):
        both = [backward(), backward()]
        assert not found(trace(loop([zero(), *both, unscale(), clip(), step(), update()])))

    def test_a_gan_whose_discriminator_is_zeroed_of_the_generators_gradients(self):
        body = [
            zero("d"),
            backward("d"),
            step("d"),
            zero("g"),
            backward("g", "d"),
            step("g"),
            update(),
        ]
        assert not found(trace(loop(body)))

    def test_a_gan_with_a_gated_generator(self):
        def body(i: int) -> list[Item]:
            at = boundary(i % K == 0, "i % n_critic == 0")
            generator = when(at, zero("g"), backward("g", "d", scaler=None), raw_step("g"))
            return [zero("d"), backward("d", scaler=None), clip("d"), raw_step("d"), *generator]

        assert not found(trace(loop(body), window=K, declared={"step", "zero"}))

    def test_a_critic_whose_loss_reaches_the_generator(self):
        def body(i: int) -> list[Item]:
            at = boundary(i % K == 0, "i % n_critic == 0")
            generator = when(at, backward("g", "d", scaler=None), raw_step("g"))
            critic = [zero("d"), backward("d", "g", scaler=None), raw_step("d")]
            return [*critic, zero("g"), *generator]

        assert not found(trace(loop(body), window=K, declared={"step"}))

    def test_one_clip_per_optimizer(self):
        body = [
            zero("a", "b"),
            backward("a", "b"),
            *(unscale("a"), clip("a"), step("a"), unscale("b"), clip("b"), step("b")),
            update(),
        ]
        assert not found(trace(loop(body)))

    def test_one_of_several_unscales_forgotten_when_nothing_reads_the_gradients(self):
        body = [zero("a", "b"), backward("a", "b"), unscale("a"), clip("a"), step("a"), step("b"), update()]
        assert not found(trace(loop(body)))

    def test_a_clip_of_more_than_the_optimizer_holds(self):
        body = [zero(), backward(), unscale(), clip("optimizer", "free:model"), step(), update()]
        assert not found(trace(loop(body)))

    def test_a_boundary_at_the_top_of_the_iteration(self):
        def body(i: int) -> list[Item]:
            at = boundary(i % K == 0, "i % k == 0")
            return [*when(at, clip(), raw_step(), zero()), backward(divided=True, scaler=None)]

        assert not found(trace(loop(body, length=9), window=K))

    def test_an_out_of_memory_handler_that_zeroes(self):
        def body(i: int) -> list[Item]:
            if i == 1:
                return [backward(divided=True), *when(choice("out of memory", varying=True), zero(), jump())]
            return [backward(divided=True), *when(boundary(last_of(i)), step(), update(), zero())]

        assert not found(trace(loop(body), window=K))

    def test_a_schedule_by_epoch_or_metric(self):
        plain = [zero(), backward(), step(), update()]
        for counts in ("epochs", "metric", "unknown"):
            body = loop(plain, epoch_end=[schedule(counts=counts)])
            assert not found(trace(body))

    def test_a_schedule_guarded_by_the_scale(self):
        body = [
            *(zero(), backward(), read_scale("before"), step(), update(), read_scale("after")),
            *when(scale_test("before", "<=", "after"), schedule()),
        ]
        assert not found(trace(loop(body)))

    def test_a_schedule_and_an_average_at_the_boundary(self):
        body = windowed(raw_step(), schedule(), average(), zero(), scaler=None)
        assert not found(trace(body, window=K))
        body = loop(
            lambda i: [
                backward(divided=True, scaler=None),
                *when(boundary(last_of(i)), raw_step(), schedule(), zero()),
            ],
            epoch_end=[schedule()],
        )
        assert not found(trace(body, window=K))

    def test_a_schedule_that_is_fast_forwarded(self):
        before = [schedule(), schedule()]
        assert not found(trace(loop([zero(), backward(scaler=None), raw_step(), schedule()], before=before)))

    def test_two_schedules(self):
        body = [zero(), backward(scaler=None), raw_step(), schedule("warmup"), schedule("decay")]
        assert not found(trace(loop(body)))

    def test_no_sync_on_all_but_the_last_micro_batch(self):
        def body(i: int) -> list[Item]:
            early = backward(divided=True, forwards=[UNSYNCED], synced=False)
            late = backward(divided=True, forwards=[DDP])
            return [late if last_of(i) else early, *when(boundary(last_of(i)), step(), update(), zero())]

        # The leftover window is carried on, and reduced with the next one.
        assert not found(trace(loop(body), window=K))

    def test_no_sync_around_the_forward_alone(self):
        def body(i: int) -> list[Item]:
            early, late = (backward(divided=True, forwards=[f]) for f in (UNSYNCED, DDP))
            return [late if last_of(i) else early, *when(boundary(last_of(i)), step(), update(), zero())]

        assert not found(trace(loop(body), window=K))

    def test_a_reduction_by_hand(self):
        loss = backward(forwards=[UNSYNCED], synced=False)
        around = backward(forwards=[forward(bypassed=True)])
        for one in (loss, around):
            assert not found(trace(loop([zero(), one, reduce(), unscale(), step(), update()])))

    def test_a_loss_multiplied_by_the_world_size(self):
        assert not found(trace(loop([zero(), backward(world=1, forwards=[DDP]), step(), update()])))
        undone = [zero(), backward(world=1, forwards=[DDP]), edit("multiply", factor=part(world=-1))]
        assert not found(trace(loop([*undone, step(), update()])))

    def test_a_loss_divided_by_the_world_size_and_summed_by_hand(self):
        assert not found(trace(loop([zero(), backward(world=-1), reduce(), step(), update()])))

    def test_a_scaler_that_is_off_under_bfloat16(self):
        assert not found(trace(loop([zero(), autocast("bfloat16"), backward(scaler=None), raw_step()])))
        mixed = [autocast("bfloat16"), autocast("float16"), backward(), step(), update(), zero()]
        assert not found(trace(loop(mixed)))

    def test_a_model_that_is_half_only_for_evaluation(self):
        body = loop([zero(), backward(), step(), update()])
        assert not found(trace([*body, convert()]))
        assert not found(trace([convert(), convert("float32"), *body]))
        assert not found(trace([convert(model="teacher"), *body]))

    def test_lbfgs(self):
        assert not found(trace(loop([backward(scaler=None), raw_step(closure=True)])))

    def test_a_tail_of_a_step_says_nothing_of_the_rest(self):
        tail = trace(loop([backward(), step(), update()]), complete=False)
        assert not found(tail)
        tail = trace(windowed(step(), update(), divided=0), window=K, complete=False)
        assert not found(tail)

    def test_what_unseen_code_has_had(self):
        assert not found(trace(loop([escape("optimizer"), backward(), step(), update()])))
        wiped = [zero(), backward(divided=True), escape("optimizer")]

        def body(i: int) -> list[Item]:
            return [*wiped, *when(boundary(last_of(i)), step(), update())]

        assert not found(trace(loop(body), window=K))

    def test_an_optimizer_known_by_its_name_only(self):
        wrapper = Role("optimizer", "optimizer", "self.optimizer", known=False)
        assert not found(trace(loop([backward(), step(), update()]), roles=[wrapper]))


class TestClips:
    def test_201_before_the_backward(self):
        assert found(trace(loop([zero(), clip(), backward(), step(), update()]))) == ["AMP201 Clip"]
        assert found(trace(loop([clip(), zero(), backward(), step(), update()]))) == ["AMP201 Clip"]
        assert found(trace(loop([clip(), backward(), step(), update(), zero()]))) == ["AMP201 Clip"]

    def test_201_not_between_the_backwards_of_one_step(self):
        losses = [backward(scaler=None), clip(), backward(scaler=None)]
        assert not found(trace(loop([zero(), *losses, raw_step()])))

    def test_201_not_when_another_clip_follows(self):
        assert not found(trace(loop([zero(), clip(), backward(), unscale(), clip(), step(), update()])))

    def test_202_after_the_step(self):
        for tail in ([clip(), zero()], [zero(), clip()]):
            assert found(trace(loop([backward(), step(), update(), *tail]))) == ["AMP202 Clip"]
        assert found(trace(loop([zero(), backward(scaler=None), raw_step(), clip()]))) == ["AMP202 Clip"]

    def test_202_at_the_boundary(self):
        assert found(trace(windowed(step(), update(), clip(), zero()), window=K)) == ["AMP202 Clip"]

    def test_202_in_the_tail_of_a_step(self):
        tail = trace([backward(), step(), clip(), update(), zero()], complete=False)
        assert found(tail) == ["AMP202 Clip"]

    def test_202_not_when_the_step_was_clipped(self):
        assert not found(trace(loop([backward(), unscale(), clip(), step(), clip(), update(), zero()])))

    def test_203_on_every_micro_batch(self):
        def body(i: int) -> list[Item]:
            at = when(boundary(last_of(i)), raw_step(), zero())
            return [backward(divided=True, scaler=None), clip(), *at]

        assert found(trace(loop(body), window=K)) == ["AMP203 Clip"]

    def test_203_before_the_last_backward(self):
        def body(i: int) -> list[Item]:
            at = boundary(last_of(i))
            loss = backward(divided=True, scaler=None)
            return [*when(at, clip()), loss, *when(at, raw_step(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP203 Clip"]

    def test_203_tells_both_tests_when_they_disagree(self):
        def body(i: int) -> list[Item]:
            early = when(boundary(i % K == 0, "i % k == 0"), clip())
            at = when(boundary(last_of(i)), raw_step(), zero())
            return [backward(divided=True, scaler=None), *early, *at]

        subject = trace(loop(body), window=K)
        assert found(subject) == ["AMP203 Clip"]
        (violation,) = RULES["AMP203"].check(subject)
        assert "`i % k == 0`" in violation.message
        assert "`(i + 1) % k == 0`" in violation.message

    def test_203_not_where_the_users_own_test_skips_the_step(self):
        def body(i: int) -> list[Item]:
            inner = [] if i == 2 else when(finite(), raw_step())
            return [backward(divided=True, scaler=None), *when(boundary(last_of(i)), clip(), *inner)]

        codes = found(trace(loop(body, epochs=1), window=K))
        assert "AMP203 Clip" not in codes

    def test_203_not_for_tensor_hooks(self):
        def body(i: int) -> list[Item]:
            at = when(boundary(last_of(i)), raw_step(), zero())
            return [backward(divided=True, scaler=None), clip(by="hook", style="value"), *at]

        assert not found(trace(loop(body), window=K))

    def test_204_a_loop_over_parameters(self):
        body = [zero(), backward(), unscale(), clip(per_parameter=True), step(), update()]
        assert found(trace(loop(body))) == ["AMP204 Clip"]

    def test_204_not_by_value(self):
        body = [zero(), backward(), unscale(), clip(per_parameter=True, style="value"), step(), update()]
        assert not found(trace(loop(body)))

    def test_205_a_joint_clip_after_a_partial_unscale(self):
        body = [
            zero("a", "b"),
            backward("a", "b"),
            unscale("a"),
            clip("a", "b"),
            step("a"),
            step("b"),
            update(),
        ]
        assert found(trace(loop(body))) == ["AMP205 Clip"]

    def test_205_is_possible_where_no_optimizer_holds_the_rest(self):
        body = [
            *(zero("a", "free:model"), backward("a", "free:model"), unscale("a")),
            *(clip("a", "free:model"), step("a"), update()),
        ]
        assert found(trace(loop(body))) == ["AMP205? Clip"]

    def test_205_not_for_the_used_gradients_of_another_optimizer(self):
        body = [
            *(backward("d"), step("d"), backward("g"), unscale("g"), clip("g", "d"), step("g"), update()),
            zero("g", "d"),
        ]
        assert not found(trace(loop(body)))

    def test_205_the_other_optimizers_parameters(self):
        body = [
            *(zero("d"), backward("d"), unscale("d"), clip("d"), step("d")),
            *(zero("g"), backward("g"), unscale("g"), clip("d"), step("g"), update()),
        ]
        assert found(trace(loop(body))) == ["AMP205 Clip"]


class TestWindows:
    def test_301_a_divided_loss_and_a_step_on_each_micro_batch(self):
        body = loop([backward(divided=True), step(), update(), zero()])
        subject = trace(body, window=K, declared={"division"})
        assert found(subject) == ["AMP301? Step"]
        assert found(named(subject, "args.gradient_accumulation_steps")) == ["AMP301 Step"]

    def test_301_not_for_a_loss_halved(self):
        body = loop([backward(divided=True), step(), update(), zero()])
        assert not found(trace(body, window=2, literal=True, declared={"division"}))

    def test_301_not_for_a_loop_whose_micro_batches_cannot_be_told_apart(self):
        loss = backward(divided=True)
        subject = trace(loop([loss, loss, step(), update(), zero()]), window=K, declared={"division"})
        assert not found(named(subject, "accum_steps"))

    def test_301_and_not_304_where_each_epoch_starts_clean(self):
        def body(i: int) -> list[Item]:
            return [backward(divided=True), step(), update(), *when(boundary(last_of(i)), zero())]

        subject = trace(loop(body, epoch_start=[zero()]), window=K, declared={"division", "zero"})
        assert found(subject) == ["AMP301 Step"]

    def test_301_gradients_kept_for_the_window(self):
        def body(i: int) -> list[Item]:
            return [backward(divided=True), step(), update(), *when(boundary(last_of(i)), zero())]

        assert found(trace(loop(body), window=K, declared={"division", "zero"})) == ["AMP301 Step"]
        assert found(trace(loop(body), window=K, declared={"zero"})) == ["AMP301 Step"]

    def test_301_not_for_an_interval_of_the_schedule(self):
        def body(i: int) -> list[Item]:
            late = when(boundary(last_of(i), "i % every == 0"), schedule())
            return [zero(), backward(scaler=None), raw_step(), *late]

        subject = trace(loop(body), window=K, declared={"schedule"})
        assert found(subject) == ["AMP301? Step"]

    def test_302_on_every_micro_batch(self):
        subject = trace(windowed(step(), update(), top=[zero()]), window=K)
        assert found(subject) == ["AMP302 ZeroGrad"]

    def test_302_another_optimizers_open_window(self):
        def body(i: int) -> list[Item]:
            slow = when(boundary(last_of(i)), raw_step("slow"))
            losses = [backward("fast", scaler=None), backward("slow", divided=True, scaler=None)]
            return [*losses, raw_step("fast"), *slow, zero("fast", "slow")]

        assert found(trace(loop(body), window=K)) == ["AMP302 ZeroGrad"]

    def test_302_two_optimizers_of_one_loss(self):
        def body(i: int) -> list[Item]:
            at = when(boundary(last_of(i)), raw_step("a"), raw_step("b"))
            return [zero("a", "b"), backward("a", "b", divided=True, scaler=None), *at]

        assert found(trace(loop(body), window=K)) == ["AMP302 ZeroGrad"]

    def test_303_between_backward_and_step(self):
        assert found(trace(loop([backward(), zero(), step(), update()]))) == ["AMP303 ZeroGrad"]
        assert found(trace(windowed(zero(), step(), update()), window=K)) == ["AMP303 ZeroGrad"]

    def test_303_one_of_two_optimizers_wiped_by_the_others_zeroing(self):
        body = [backward("a", "b", scaler=None), raw_step("a"), zero("a", "b"), raw_step("b")]
        assert found(trace(loop(body))) == ["AMP303 ZeroGrad"]

    def test_303_no_step_at_all(self):
        body = loop([zero(), backward(scaler=None)])
        assert found(trace(body)) == ["AMP303? ZeroGrad"]

    def test_303_not_for_gradients_that_are_read(self):
        assert not found(trace(loop([zero(), backward(scaler=None), read()])))

    def test_304_nothing_zeroes(self):
        assert found(trace(loop([backward(), step(), update()]))) == ["AMP304 Step"]
        assert found(trace(windowed(step(), update()), window=K)) == ["AMP304 Step"]

    def test_304_a_flush_that_does_not_zero(self):
        body = loop(
            lambda i: [
                backward(divided=True, scaler=None),
                *when(boundary(last_of(i)), raw_step(), zero()),
            ],
            epoch_end=[raw_step()],
        )
        assert found(trace(body, window=K)) == ["AMP304 Step"]

    def test_304_with_a_test_of_the_loss(self):
        body = loop(lambda i: when(finite(), backward(), step(), update()) if i % 3 else [])
        subject = trace(body, choices=[finite(False), finite()])
        assert found(subject) == ["AMP304 Step"]

    def test_305_nothing_divides(self):
        body = windowed(step(), update(), zero(), divided=0)
        assert found(trace(body, window=K, declared={"step", "zero"})) == ["AMP305 Backward"]

    def test_305_one_finding_for_two_losses(self):
        def body(i: int) -> list[Item]:
            return [backward(), backward(), *when(boundary(last_of(i)), step(), update(), zero())]

        assert found(trace(loop(body), window=K, declared={"step"})) == ["AMP305 Backward"]

    def test_305_is_possible_for_a_bare_loop(self):
        items: list[Item] = []
        for epoch in range(2):
            items.append(replace(zero(), epoch=epoch, iteration=(epoch,), micro=K * epoch))
            loss = replace(backward(), epoch=epoch)
            items += [replace(loss, iteration=(epoch, i), micro=K * epoch + i) for i in range(K)]
            items += [
                replace(one, epoch=epoch, iteration=(epoch,), micro=K * epoch + K - 1)
                for one in (step(), update())
            ]
        subject = trace(items, window=K, declared={"loop"})
        assert [line.rstrip("0123456789") for line in found(subject)] == ["AMP305? Backward"]
        assert found(named(subject, "accum_iter")) == ["AMP305 Backward"]

    def test_305_is_possible_for_a_loss_of_unknown_making(self):
        def body(loss: Item) -> list[Item]:
            return loop(lambda i: [loss, *when(boundary(last_of(i)), step(), update(), zero())])

        unknown = trace(body(backward(reduction="unknown")), window=K, declared={"step"})
        assert found(unknown) == ["AMP305? Backward"]
        of_a_model = backward(reduction="unknown", forwards=[forward(wrapper="")])
        assert found(trace(body(of_a_model), window=K, declared={"step"})) == ["AMP305? Backward"]
        assert not found(trace(body(backward(reduction="sum")), window=K, declared={"step"}))

    def test_305_is_possible_after_an_unknown_multiplication(self):
        body = windowed(unscale(), edit("multiply"), step(), update(), zero(), divided=0)
        assert found(trace(body, window=K, declared={"step"})) == ["AMP305? Backward"]

    def test_306_twice_in_the_loss(self):
        body = windowed(step(), update(), zero(), divided=2)
        assert found(trace(body, window=K)) == ["AMP306 Backward"]

    def test_306_in_the_loss_and_the_gradients(self):
        divide = edit("multiply", factor=part(window=-1))
        body = windowed(unscale(), divide, step(), update(), zero())
        assert found(trace(body, window=K)) == ["AMP306 Edit"]

    def test_308_a_first_window_of_one(self):
        def body(i: int) -> list[Item]:
            at = boundary(i % K == 0, "i % k == 0")
            return [backward(divided=True), *when(at, step(), update(), zero())]

        subject = trace(loop(body), window=K)
        assert found(subject) == ["AMP308 Step"]
        (violation,) = RULES["AMP308"].check(subject)
        assert "`i % k == 0`" in violation.message

    def test_308_a_first_window_of_one_less(self):
        def body(i: int) -> list[Item]:
            at = boundary((i + 2) % K == 0, "(i + 1) % k == 0")
            return [backward(divided=True), *when(at, step(), update(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP308 Step"]

    def test_308_a_first_window_of_one_more(self):
        def body(i: int) -> list[Item]:
            at = boundary(i > 0 and i % K == 0, "i > 0 and i % k == 0")
            return [backward(divided=True), *when(at, step(), update(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP308 Step"]

    def test_312_never(self):
        subject = trace(windowed(), window=K)
        never = trace(loop([backward(divided=True)]), window=K, declared={"division", "step", "zero"})
        assert found(never) == found(subject) == ["AMP312 Backward"]
        zeroed = trace(loop([zero(), backward(divided=True)]), window=K, declared={"division", "step"})
        assert found(zeroed) == ["AMP312 Backward"]

    def test_312_is_possible_where_an_option_may_switch_training_off(self):
        items = loop([backward(divided=True)])
        for option, line in (("dry_run", "AMP312? Backward"), ("use_amp", "AMP312 Backward")):
            subject = trace(items, window=K, choices=[choice(option)])
            assert found(subject) == [line]

    def test_312_once(self):
        items = loop([backward(divided=True)])
        at = boundary(True, "counter == k")
        once = [replace(i, micro=2, iteration=(0, 2)) for i in when(at, step(), update(), zero())]
        subject = trace([*items[:3], *once, *items[3:]], window=K)
        assert found(subject) == ["AMP312 Step"]

    def test_313_by_the_scale(self):
        body = [
            *(backward(), read_scale("before"), step(), update(), read_scale("after")),
            *when(scale_test("after", ">=", "before"), zero()),
        ]
        assert found(trace(loop(body))) == ["AMP313 ZeroGrad"]
        body = [
            *(backward(), read_scale("before"), step(), update(), read_scale("after")),
            *when(scale_test("before", ">", "after", holds=False), zero()),
        ]
        assert found(trace(loop(body))) == ["AMP313 ZeroGrad"]

    def test_313_by_finite_gradients(self):
        good = finite(text="torch.isfinite(norm)")
        body = [backward(scaler=None), *when(good, raw_step(), zero())]
        # The test may as well end the program: only a run that goes on makes it certain.
        assert found(trace(loop(body))) == ["AMP313? ZeroGrad"]
        skipped = loop(lambda i: body[:1] if i == 2 else body)
        assert found(trace(skipped)) == ["AMP313 ZeroGrad"]

    def test_313_not_when_failure_zeroes_too(self):
        text = "torch.isfinite(norm)"
        good = [backward(scaler=None), *when(finite(text=text), raw_step(), zero())]
        bad = [backward(scaler=None), *when(finite(False, text), zero(), jump())]
        assert not found(trace(loop(lambda i: bad if i == 1 else good)))

    def test_313_not_when_the_loss_was_tested_before_its_backward(self):
        assert not found(trace(loop(when(finite(), backward(), step(), update(), zero()))))

    def test_313_not_when_zeroed_on_failure(self):
        bad = finite(text="torch.isnan(norm).any()")
        assert not found(trace(loop([backward(scaler=None), *when(bad, zero(), jump())])))

    def test_313_not_when_cleared_anyway(self):
        body = [
            *(zero(), backward(), read_scale("before"), step(), update(), read_scale("after")),
            *when(scale_test("before", "<=", "after"), zero()),
        ]
        assert not found(trace(loop(body)))

    def test_313_and_not_304_where_the_step_was_skipped(self):
        body = [backward(), read_scale("before"), step(), update(), read_scale("after")]
        skip = scale_test("before", "<=", "after")
        seen = trace(loop([*body, *when(skip, zero())]))
        skipped = [replace(g, holds=False) for r in seen.records for g in r.guards if g.skip]
        subject = trace(loop(body), choices=skipped)
        assert found(subject) == ["AMP304? Step"]  # such a run alone cannot tell

    @staticmethod
    def jumping(at: int, *before: Item, counts: bool = False) -> Trace:
        """A loop that jumps away on one micro-batch of each epoch; `counts`: the boundary counts what was used."""

        def body(i: int) -> list[Item]:
            if i == at:
                return when(finite(False), *before, jump())
            used = i + 1 - (counts and i > at)
            last = when(boundary(used % K == 0), step(), update(), zero())
            return when(finite(), backward(divided=True), *last)

        return trace(loop(body), window=K)

    def test_316_a_jump_over_the_boundary(self):
        assert found(self.jumping(2)) == ["AMP316 Jump"]

    def test_316_a_jump_inside_a_window_whose_boundary_counts_iterations(self):
        assert found(self.jumping(1)) == ["AMP316 Jump"]

    def test_316_not_where_the_boundary_counts_what_was_used(self):
        assert not found(self.jumping(1, counts=True))
        assert not found(self.jumping(2, counts=True))

    def test_316_not_where_the_window_is_dropped(self):
        assert not found(self.jumping(1, zero()))
        assert not found(self.jumping(2, zero()))

    def test_316_not_after_the_boundary(self):
        def body(i: int) -> list[Item]:
            last = when(boundary(last_of(i)), step(), update(), zero())
            return [backward(divided=True), *last, *when(choice("quiet", varying=True), jump())]

        assert not found(trace(loop(body), window=K))


class TestSynchronisation:
    def test_401_every_micro_batch_reduces(self):
        def body(i: int) -> list[Item]:
            return [
                backward(divided=True, forwards=[DDP]),
                *when(boundary(last_of(i)), step(), update(), zero()),
            ]

        assert found(trace(loop(body), window=K)) == ["AMP401 Backward"]

    def test_401_what_an_earlier_window_left_is_no_micro_batch(self):
        def body(i: int) -> list[Item]:
            last = last_of(i) or i == 2 * K
            loss = backward(divided=True, forwards=[DDP if last else UNSYNCED], synced=last)
            return [loss, *when(boundary(last), step(), update())]

        assert "AMP401 Backward" not in found(trace(loop(body, length=2 * K + 1), window=K))

    def test_401_fsdp(self):
        wrapped = forward(wrapper="fsdp")

        def body(i: int, synced: bool = True) -> list[Item]:
            loss = backward(divided=True, forwards=[wrapped], synced=synced or last_of(i))
            return [loss, *when(boundary(last_of(i)), step(), update(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP401 Backward"]
        assert not found(trace(loop(lambda i: body(i, False)), window=K))

    def test_402_all_inside_no_sync(self):
        loss = backward(divided=True, forwards=[UNSYNCED], synced=False)

        def body(i: int) -> list[Item]:
            return [loss, *when(boundary(last_of(i)), step(), update(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP402 Backward"]
        assert found(trace(loop([zero(), loss, step(), update()]))) == ["AMP402 Backward"]

    def test_402_a_flush_of_unsynchronised_micro_batches(self):
        early = backward(divided=True, forwards=[UNSYNCED], synced=False)
        late = backward(divided=True, forwards=[DDP])
        body = loop(
            lambda i: [
                late if last_of(i) else early,
                *when(boundary(last_of(i)), step(), update(), zero()),
            ],
            epoch_end=[step(), update(), zero()],
        )
        assert found(trace(body, window=K)) == ["AMP402 Backward"]

    def test_403_the_backward_alone(self):
        def body(i: int) -> list[Item]:
            loss = backward(divided=True, forwards=[DDP], synced=last_of(i))
            return [loss, *when(boundary(last_of(i)), step(), update(), zero())]

        assert found(trace(loop(body), window=K)) == ["AMP403 Backward"]

    def test_404_the_loss(self):
        assert found(trace(loop([zero(), backward(world=-1, forwards=[DDP]), step(), update()]))) == [
            "AMP404 Backward"
        ]

    def test_404_the_gradients(self):
        body = [zero(), backward(forwards=[DDP]), edit("multiply", factor=part(world=-1)), step(), update()]
        assert found(trace(loop(body))) == ["AMP404 Edit"]

    def test_405_around_ddp(self):
        loss = backward(forwards=[forward(bypassed=True)])
        assert found(trace(loop([zero(), loss, step(), update()]))) == ["AMP405 Backward"]

    def test_405_not_beside_a_pass_through_it(self):
        loss = backward(forwards=[DDP, forward(bypassed=True)])
        assert not found(trace(loop([zero(), loss, step(), update()])))


class TestSchedules:
    def test_501_on_every_micro_batch(self):
        body = windowed(raw_step(), zero(), every=[schedule()], scaler=None)
        assert found(trace(body, window=K)) == ["AMP501 ScheduleStep"]
        under_scaler = windowed(step(), update(), zero(), every=[schedule(counts="unknown")])
        assert found(trace(under_scaler, window=K)) == ["AMP501 ScheduleStep"]

    def test_501_not_where_the_users_own_test_skips_a_step(self):
        def body(i: int) -> list[Item]:
            inner = [] if i == 2 else when(finite(), raw_step())
            at = when(boundary(last_of(i)), *inner, schedule(), zero())
            return [backward(divided=True, scaler=None), *at]

        assert "AMP501 ScheduleStep" not in found(trace(loop(body, epochs=1), window=K))

    def test_502_before_the_optimizer(self):
        body = [zero(), backward(scaler=None), schedule(), raw_step()]
        assert found(trace(loop(body))) == ["AMP502 ScheduleStep"]

    def test_502_at_the_start_of_each_epoch(self):
        body = loop([zero(), backward(scaler=None), raw_step()], epoch_start=[schedule(counts="epochs")])
        assert found(trace(body)) == ["AMP502 ScheduleStep"]

    def test_502_not_after_a_skipped_first_step(self):
        def body(i: int) -> list[Item]:
            return [zero(), backward(scaler=None), *([] if i == 0 else [raw_step()]), schedule()]

        assert "AMP502 ScheduleStep" not in found(trace(loop(body)))

    def test_503_on_skipped_steps(self):
        assert found(trace(loop([zero(), backward(), step(), update(), schedule()]))) == [
            "AMP503 ScheduleStep"
        ]
        body = windowed(step(), update(), schedule(), zero())
        assert found(trace(body, window=K)) == ["AMP503 ScheduleStep"]

    def test_503_for_a_torch_class_that_could_count_anything(self):
        def body(known: bool) -> Trace:
            role = Role("scheduler", "scheduler", "scheduler", known, "StepLR" if known else "")
            items = [zero(), backward(), step(), update(), schedule(counts="unknown")]
            return trace(loop(items), roles=[role])

        assert found(body(known=True)) == ["AMP503 ScheduleStep"]
        assert found(body(known=False)) == ["AMP503? ScheduleStep"]

    def test_503_not_after_a_block_that_flushes_the_tail(self):
        tail = [step(), update(), zero(), schedule(counts="unknown")]
        body = windowed(step(), update(), zero())
        flushed = [replace(item, epoch=1, iteration=(1,), micro=13) for item in tail]
        assert not found(trace([*body, *flushed], window=K))

    def test_503_not_where_the_gradients_are_finite(self):
        late = when(finite(), schedule())
        assert not found(trace(loop([zero(), backward(), step(), update(), *late])))

    def test_503_not_where_the_words_tell_of_a_test(self):
        late = when(choice("accelerator.optimizer_step_was_skipped", False, varying=True), schedule())
        assert not found(trace(loop([zero(), backward(), step(), update(), *late])))

    @pytest.mark.parametrize("op", ["==", "!=", ">=", "<"])
    def test_504_a_test_that_misreads(self, op):
        body = [
            *(zero(), backward(), read_scale("before"), step(), update(), read_scale("after")),
            *when(scale_test("before", op, "after"), schedule()),
        ]
        assert found(trace(loop(body))) == ["AMP504 ScheduleStep"]

    def test_504_readings_on_one_side(self):
        body = [
            *(zero(), backward(), read_scale("before"), step(), read_scale("after"), update()),
            *when(scale_test("before", "<=", "after"), schedule(), average()),
        ]
        assert found(trace(loop(body))) == ["AMP504 ScheduleStep"]

    def test_504_one_scale_for_two_optimizers(self):
        body = [
            *(zero("a", "b"), backward("a", "b"), read_scale("before"), step("a"), step("b"), update()),
            *(read_scale("after"), *when(scale_test("before", "<=", "after"), schedule("scheduler", "a"))),
        ]
        assert found(trace(loop(body))) == ["AMP504 ScheduleStep"]

    def test_505_on_every_micro_batch(self):
        body = windowed(raw_step(), zero(), every=[average()], scaler=None)
        assert found(trace(body, window=K)) == ["AMP505 AverageUpdate"]

    def test_506_twice(self):
        body = [zero(), backward(scaler=None), raw_step(), schedule(), schedule()]
        assert found(trace(loop(body))) == ["AMP506 ScheduleStep"]


class TestPrecision:
    def test_601_where_the_scaler_is_built(self):
        body = loop([zero(), autocast("bfloat16"), backward(), step(), update()])
        assert found(trace(body)) == ["AMP601 Backward"]
        assert found(trace([build("scaler", "scaler"), *body])) == ["AMP601 Build"]

    def test_601_not_for_an_autocast_elsewhere(self):
        body = loop([zero(), backward(), step(), update()], epoch_end=[autocast("bfloat16")])
        assert not found(trace(body))

    def test_602_at_the_cast(self):
        body = loop([zero(), backward(), unscale(), clip(), step(), update()])
        whole = Role("optimizer", "optimizer", "optimizer", detail="torch.optim.SGD", models=("model",))
        assert found(trace([convert(), *body], roles=[whole])) == ["AMP602 Convert"]
        # An optimizer of another library may keep float32 copies of its own.
        assert found(trace([convert(), *body])) == ["AMP602? Convert"]
        adapters = Role("optimizer", "optimizer", "optimizer", models=("model",), partial=True)
        assert found(trace([convert(), *body], roles=[adapters])) == ["AMP602? Convert"]

    def test_604_each_place_once(self):
        body = loop([zero(), deprecated("torch.cuda.amp.autocast"), backward(), step(), update()])
        assert found(trace([deprecated(), *body])) == ["AMP604 Deprecated"] * 2


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_pages_have_the_headings(rule):
    headings = [
        line.strip()[3:] for line in (rule.__doc__ or "").splitlines() if line.strip().startswith("## ")
    ]
    wanted = ["What it does", "Why is this bad", "Example", "Use instead", "Known problems", "References"]
    if rule.code.startswith("AMP9"):
        wanted = [wanted[0], wanted[1], wanted[4]]
    assert headings == wanted
    assert rule.oracle or rule.unobservable


def test_every_rule_is_found():
    assert set(RULES) == CODES


def test_a_trace_without_events_is_silent():
    assert not found(trace([]))
    assert not list(trace([]).of(ZeroGrad))
