"""Faulty loops, one for each row of the measured table of faults, with what the replay must say of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ampcheck import events as ev
from ampcheck.rule import Observable
from ampcheck.trace import Trace
from tests.tracing import (
    Item,
    autocast,
    average,
    backward,
    boundary,
    build,
    clip,
    convert,
    deprecated,
    differentiate,
    edit,
    forward,
    jump,
    loop,
    part,
    raw_step,
    read,
    read_scale,
    result_test,
    scale_test,
    schedule,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

Body = Callable[[int], Sequence[Item]]


@dataclass(frozen=True)
class Fault:
    """A faulty trace, the oracle of the rule that finds it, and a part of the line that the replay must print."""

    trace: Trace
    oracle: tuple[Observable, ...]
    says: str
    at: type[ev.Event] = ev.Backward


def _every(*items: Item) -> Trace:
    return trace(loop(items))


def _accumulated(body: Body, k: int = 3) -> Trace:
    return trace(loop(body, length=2 * k + 1), window=k)


def _at(i: int, k: int = 3) -> Callable[..., list[Item]]:
    return lambda *items: when(boundary((i + 1) % k == 0), *items)


def _row_5(i: int) -> list[Item]:
    return [backward(divided=True), unscale(), *_at(i)(step(), update(), zero())]


def _row_6(i: int) -> list[Item]:
    first = [unscale()] if i % 3 == 0 else []
    return [backward(divided=True), *first, *_at(i)(step(), update(), zero())]


def _row_7(i: int) -> list[Item]:
    return [
        backward(divided=True),
        unscale(),
        *([update()] if i % 3 < 2 else []),
        *_at(i)(step(), update(), zero()),
    ]


def _row_8(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i)(step()), update(), *_at(i)(zero())]


def _row_12_path(i: int) -> list[Item]:
    return [backward(), unscale(), jump()] if i == 1 else [backward(), unscale(), step(), update(), zero()]


def _row_13(i: int) -> list[Item]:
    return [backward(divided=True), step(), update(), zero()]


def _row_14(i: int) -> list[Item]:
    return [backward(divided=True), step(), update(), *_at(i)(zero())]


def _two(*items: Item) -> Trace:
    return _every(backward("a", "b"), *items, zero("a", "b"))


def _row_25_one_of_two(i: int) -> list[Item]:
    return [backward(), backward(scaler=None), step(), update(), zero()]


def _row_29(i: int) -> list[Item]:
    return [backward(), *_at(i)(step(), update(), zero())]


def _row_29_no_scaler(i: int) -> list[Item]:
    return [backward(scaler=None), *_at(i)(raw_step(), zero())]


def _row_29_twice(i: int) -> list[Item]:
    return [backward(divided=2), *_at(i)(step(), update(), zero())]


def _row_29_loss_and_gradients(i: int) -> list[Item]:
    at = _at(i)
    return [
        backward(divided=True),
        *at(unscale(), edit("multiply", factor=part(window=-1)), step(), update(), zero()),
    ]


def _row_33(i: int) -> list[Item]:
    return [zero(), backward(divided=True), *_at(i)(step(), update())]


def _row_34_window(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i)(zero(to_none=False), step(), update())]


def _row_36(i: int) -> list[Item]:
    guarded = when(scale_test("after", ">=", "before"), zero())
    return [backward(), read_scale("before"), step(), update(), read_scale("after"), *guarded]


def _row_38(i: int) -> list[Item]:
    at = when(boundary(i % 3 == 0, "i % k == 0"), step(), update(), zero())
    return [backward(divided=True), *at]


def _never(i: int) -> list[Item]:
    return [backward(divided=True)]


def _row_39(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i, 4)(step(), update(), zero()), schedule()]


def _guarded_schedule(op: str) -> list[Item]:
    test = when(scale_test("before", op, "after"), schedule())
    return [backward(), read_scale("before"), step(), update(), read_scale("after"), *test, zero()]


def _row_46(i: int) -> list[Item]:
    return [backward(divided=True, scaler=None), clip(), *_at(i)(raw_step(), zero())]


def _row_46_scaled(i: int) -> list[Item]:
    return [backward(divided=True), clip(), *_at(i)(unscale(), step(), update(), zero())]


def _skipped_boundary(i: int) -> list[Item]:
    return [jump()] if i == 2 else [backward(divided=True), *_at(i)(step(), update(), zero())]


def _ema(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i)(step(), update(), zero()), average()]


def _ddp(synced: Callable[[bool], bool], how: str = "both") -> Body:
    def body(i: int) -> list[Item]:
        last = (i + 1) % 3 == 0
        sync = synced(last)
        passes = [forward(synced=sync or how == "backward", bypassed=how == "bypassed")]
        divided = backward(divided=True, forwards=passes, synced=sync)
        return [divided, *_at(i)(step(), update(), zero())]

    return body


def _partial_unscale() -> Trace:
    return _every(
        backward("a", "b"), unscale("a"), clip("a", "b"), step("a"), step("b"), update(), zero("a", "b")
    )


FAULTS: dict[str, Fault] = {
    "1 clip before unscale": Fault(
        _every(backward(), clip(), step(), update(), zero()),
        ("gradient", "clip-norm"),
        "norm at step 0.125 = M/S, expected 1.0: (0.075, 0.1) for (0.6, 0.8)",
    ),
    "1 clip before a later unscale": Fault(
        _every(backward(), clip(), unscale(), step(), update(), zero()),
        ("gradient", "clip-norm"),
        "norm at step 0.125 = M/S, expected 1.0",
    ),
    "1 clip before unscale, norm": Fault(
        _every(backward(), clip(by="hand"), step(), update(), zero()),
        ("clip-norm",),
        "norm handed to the clip 40.0, expected 5.0 (× S)",
    ),
    "2 value clip before unscale": Fault(
        _every(backward(), clip(style="value"), step(), update(), zero()),
        ("gradient",),
        "gradient at step (0.125, 0.125), expected (1, 1)",
    ),
    "2 value clip hides the overflow": Fault(
        _every(backward(), clip(style="value"), step(), update(), zero()),
        ("steps",),
        "in an overflow run",
    ),
    "3 norm read before unscale": Fault(
        _every(backward(), read(), step(), update(), zero()),
        ("read-norm",),
        "norm read 40.0, expected 5.0 (× S)",
    ),
    "4 noise before unscale": Fault(
        _every(backward(), edit("shift"), step(), update(), zero()),
        ("gradient",),
        "gradient at step (3.125, 4.125), expected (4, 5)",
    ),
    "4 sign before unscale": Fault(
        _every(backward(), edit("nonlinear"), step(), update(), zero()),
        ("gradient",),
        "(0.125, 0.125), expected (1, 1) (× 1/S)",
    ),
    "5 unscale on every micro-batch": Fault(
        _accumulated(_row_5),
        ("exception", "gradient"),
        "torch raises at micro-batch 2: unscale_() has already been called",
    ),
    "6 unscale on the first micro-batch only": Fault(
        _accumulated(_row_6), ("exception", "gradient"), "gradient at step 13.667, expected 2.0"
    ),
    "7 unscale and update on every micro-batch": Fault(
        _accumulated(_row_7), ("exception", "gradient"), "gradient at step 1.0885, expected 2.0"
    ),
    "8 update on every micro-batch": Fault(
        _accumulated(_row_8),
        ("exception",),
        "torch raises at micro-batch 1: No inf checks were recorded prior to update",
    ),
    "9 divided by the scale by hand, then scaler.step": Fault(
        _every(
            backward(), edit("multiply", factor=part().times(part("scaler"), -1)), step(), update(), zero()
        ),
        ("exception", "gradient"),
        "(× 1/S)",
    ),
    "10 unscale, update, step": Fault(
        _every(backward(), unscale(), update(), step(), zero()), ("gradient",), "(× 1/S)"
    ),
    "10 unscale, update, step: raises later": Fault(
        _every(backward(), unscale(), update(), step(), zero()),
        ("exception",),
        "unscale_() is being called after step()",
    ),
    "11 update before step": Fault(
        _every(backward(), update(), step(), zero()),
        ("exception",),
        "No inf checks were recorded prior to update",
    ),
    "12 missing update": Fault(
        _every(backward(), step(), zero()),
        ("exception",),
        "torch raises at micro-batch 2: step() has already been called",
    ),
    "12 missing update on one path": Fault(
        trace(loop(_row_12_path)),
        ("exception",),
        "torch raises at micro-batch 3: unscale_() has already been called",
    ),
    "13 step on every micro-batch": Fault(
        _accumulated(_row_13), ("steps",), "optimizer steps per window 3, expected 1"
    ),
    "14 step on every micro-batch, gradients kept": Fault(
        _accumulated(_row_14), ("gradient",), "gradient at step"
    ),
    "15 update between two optimizers": Fault(
        _two(step("a"), update(), step("b"), update()), ("gradient",), "(× 1/2), while the scale grows"
    ),
    "15 update between two optimizers, overflow": Fault(
        _two(step("a"), update(), step("b"), update()), ("scale",), "while the scale grows"
    ),
    "16 update between, both unscaled": Fault(
        _two(unscale("a"), unscale("b"), clip("a", "b"), step("a"), update(), step("b"), update()),
        ("exception", "gradient"),
        "(× 1/S)",
    ),
    "17 partial unscale and joint clip": Fault(
        _partial_unscale(), ("clip-norm",), "norm handed to the clip 104.12"
    ),
    "17 partial unscale and joint clip, gradient": Fault(
        _partial_unscale(),
        ("gradient",),
        "gradient at step (0.028813, 0.038417), expected (0.21539, 0.28718)",
    ),
    "18 free gradients in the clip": Fault(
        _every(
            backward("optimizer", "free:model"),
            unscale(),
            clip("optimizer", "free:model"),
            step(),
            update(),
            zero("optimizer", "free:model"),
        ),
        ("clip-norm", "gradient"),
        "norm handed to the clip 104.12, expected 5.0",
    ),
    "20 one raw step, one scaled": Fault(
        _two(step("a"), raw_step("b"), update()), ("gradient",), "(40, 96), expected (5, 12) (× S)"
    ),
    "21 raw step on scaled gradients": Fault(
        _every(backward(), raw_step(), zero()),
        ("gradient",),
        "gradient at step (24, 32), expected (3, 4) (× S); norm at S = 1, 8, 64: 5.0, 40.0, 320.0",
    ),
    "21 scaled, clipped, raw step": Fault(
        _every(backward(), clip(), raw_step(), zero()), ("gradient",), "with M/S < ‖g‖ < M"
    ),
    "21 raw step in a window": Fault(
        _accumulated(lambda i: [backward(divided=True), *_at(i)(raw_step(), zero())]),
        ("gradient",),
        "gradient at step 16.0, expected 2.0 (× S)",
    ),
    "22 raw step and scaled step": Fault(
        _every(backward(), raw_step(), step(), update(), zero()),
        ("exception", "steps"),
        "optimizer steps per window 2, expected 1",
    ),
    "23 scaled, raw step, update": Fault(
        _every(backward(), raw_step(), update(), zero()),
        ("exception",),
        "No inf checks were recorded prior to update",
    ),
    "24 raw step after unscale": Fault(
        _every(backward(), unscale(), raw_step(), update(), zero()), ("parameters",), "parameters become"
    ),
    "25 loss never scaled": Fault(
        _every(backward(scaler=None), step(), update(), zero()),
        ("exception", "gradient"),
        "Attempted step but _scale is None",
    ),
    "25 one of two losses not scaled": Fault(
        trace(loop(_row_25_one_of_two)),
        ("exception", "gradient"),
        "gradient at step (3.75, 5), expected (9, 12)",
    ),
    "26 nested scale": Fault(
        _every(backward(parts=[part("scaler", "scaler")]), step(), update(), zero()),
        ("gradient",),
        "(24, 32), expected (3, 4) (× S)",
    ),
    "27 crossed scalers": Fault(
        _every(
            backward(scaler="first"),
            backward("other", scaler="second"),
            step(scaler="second"),
            step("other", scaler="first"),
            update("first"),
            update("second"),
            zero("optimizer", "other"),
        ),
        ("exception", "gradient"),
        "(× S₁/S₂)",
    ),
    "29 not divided by K": Fault(
        _accumulated(_row_29), ("gradient",), "gradient at step 48/8 = 6.0, expected 2.0 (× K)"
    ),
    "29 not divided by K, no scaler": Fault(
        _accumulated(_row_29_no_scaler), ("gradient",), "gradient at step 6.0, expected 2.0 (× K)"
    ),
    "29 divided twice": Fault(
        _accumulated(_row_29_twice), ("gradient",), "gradient at step 0.66667, expected 2.0 (× 1/K)"
    ),
    "29 loss and gradients divided": Fault(
        _accumulated(_row_29_loss_and_gradients),
        ("gradient",),
        "gradient at step 0.66667, expected 2.0 (× 1/K)",
    ),
    "30 nan_to_num before unscale": Fault(
        _every(backward(), edit("hide"), step(), update(), zero()),
        ("steps", "scale"),
        "in an overflow run",
    ),
    "33 zeroed on every micro-batch": Fault(
        _accumulated(_row_33), ("gradient",), "gradient at step 8/8 = 1.0, expected 2.0"
    ),
    "34 zeroed before the step": Fault(
        _every(backward(), zero(), step(), update()),
        ("exception", "gradient"),
        "No inf checks were recorded for this optimizer",
    ),
    "34 zeroed to zeros before the step": Fault(
        _accumulated(_row_34_window), ("exception", "gradient"), "gradient at step 0.0, expected 2.0"
    ),
    "34 zeroed before a raw step": Fault(
        _every(backward(scaler=None), zero(), raw_step()),
        ("exception", "gradient"),
        "gradient at step (0, 0), expected (3, 4)",
    ),
    "35 never zeroed": Fault(
        _every(backward(), step(), update()),
        ("gradient",),
        "gradient at step (6.375, 8.5), expected (6, 8)",
    ),
    "35 never zeroed, no scaler": Fault(
        _every(backward(scaler=None), raw_step()),
        ("gradient",),
        "gradient at step (9, 12), expected (6, 8)",
    ),
    "36 zeroed only after a step": Fault(
        trace(loop(_row_36)), ("steps",), "optimizer steps 1, expected 13, in an overflow run"
    ),
    "38 boundary off by one": Fault(
        _accumulated(_row_38), ("windows",), "micro-batches per step 1, 3, expected 3, 3"
    ),
    "312 window never completes": Fault(_accumulated(_never), ("steps",), "optimizer steps 0, expected 2"),
    "316 boundary skipped": Fault(_accumulated(_skipped_boundary), ("gradient",), "gradient at step"),
    "39 schedule on every micro-batch": Fault(
        _accumulated(_row_39, 4), ("schedule",), "scheduler 8 steps, optimizer 2"
    ),
    "40 schedule on skipped steps": Fault(
        _every(backward(), step(), update(), schedule(), zero()),
        ("schedule",),
        "scheduler 14 steps, optimizer 13, in an overflow run",
    ),
    "41 guard with ==": Fault(
        trace(loop(_guarded_schedule("=="))),
        ("schedule",),
        "scheduler 0 steps, optimizer 14, while the scale grows",
    ),
    "41 guard with <": Fault(
        trace(loop(_guarded_schedule("<"))), ("schedule",), "scheduler 0 steps, optimizer 4"
    ),
    "42 both readings before update": Fault(
        _every(
            backward(),
            read_scale("before"),
            step(),
            read_scale("after"),
            update(),
            *when(scale_test("before", "<=", "after"), schedule()),
            zero(),
        ),
        ("schedule",),
        "scheduler 14 steps, optimizer 13, in an overflow run",
    ),
    "43 scheduler before optimizer": Fault(
        _every(backward(), schedule(), step(), update(), zero()),
        ("warning", "rates"),
        "torch warns: Detected call of `lr_scheduler.step()` before `optimizer.step()`",
    ),
    "43 scheduler before optimizer, rates": Fault(
        _every(backward(), schedule(), step(), update(), zero()),
        ("rates",),
        "learning rate at step 1 0.5, expected 1.0",
    ),
    "506 scheduler twice": Fault(
        _every(backward(), step(), update(), schedule(), schedule(), zero()),
        ("schedule",),
        "scheduler 8 steps, optimizer 4",
    ),
    "44 clip before backward": Fault(
        _every(zero(), clip(), backward(), step(), update()),
        ("gradient",),
        "norm at step 5.0, expected 1.0: (3, 4) for (0.6, 0.8)",
    ),
    "45 clip after step": Fault(
        _every(backward(), step(), clip(), update(), zero()),
        ("gradient",),
        "norm at step 5.0, expected 1.0: (3, 4) for (0.6, 0.8)",
    ),
    "46 clip on every micro-batch": Fault(_accumulated(_row_46), ("gradient",), "gradient at step"),
    "46 clip on every micro-batch, scaled": Fault(_accumulated(_row_46_scaled), ("gradient",), "M/S"),
    "47 clip per parameter": Fault(
        _every(backward(), unscale(), clip(per_parameter=True), step(), update(), zero()),
        ("gradient",),
        "norm at step 1.4142 = √2·M, expected 1.0",
    ),
    "48 bfloat16 autocast": Fault(
        _every(autocast("bfloat16"), backward(), step(), update(), zero()),
        ("scale",),
        "loss scale 2.0 × S, expected 1.0 × S, while the scale grows",
    ),
    "49 half model": Fault(
        trace(loop([backward(), step(), update(), zero()], before=[convert("float16")])),
        ("exception",),
        "Attempting to unscale FP16 gradients",
    ),
    "54 scaler built in the loop": Fault(
        _every(build("scaler", "scaler"), backward(), step(), update(), zero()),
        ("steps",),
        "optimizer steps 0, expected 12",
    ),
    "55 closure": Fault(
        _every(backward(), step(closure=True), update(), zero()),
        ("exception",),
        "Closure use is not currently supported if GradScaler is enabled",
    ),
    "55 closure by position": Fault(
        _every(backward(), step(passed="positional"), update(), zero()),
        ("exception", "parameters"),
        "parameters (",
    ),
    "52 derivative of a scaled loss": Fault(
        _every(differentiate(), backward(), step(), update(), zero()),
        ("derivative",),
        "norm of the derivatives 40.0, expected 5.0 (× S): a penalty (‖g‖ − 1)² is 1521.0, expected 16.0",
    ),
    "56 result of the step": Fault(
        _every(backward(), step(), result_test(), update(), zero()),
        ("skip-test",),
        "the step returns None where it was skipped (1) and where it was done (13), in an overflow run",
    ),
    "60 clip that raises": Fault(
        _every(backward(), unscale(), clip(error_if_nonfinite=True), step(), update(), zero()),
        ("exception",),
        "non-finite",
    ),
    "604 deprecated": Fault(
        trace(loop([backward(), step(), update(), zero()], before=[deprecated()])),
        ("warning",),
        "torch warns: `torch.cuda.amp.GradScaler(args",
    ),
    "505 average on every micro-batch": Fault(
        _accumulated(_ema), ("decay",), "updates of the average per window 3, expected 1"
    ),
    "206 nothing left to clip": Fault(
        _every(backward(), unscale(), clip(nothing=True), step(), update(), zero()),
        ("gradient",),
        "norm at step 5.0, expected 1.0",
    ),
    "D1 no no_sync": Fault(
        _accumulated(_ddp(lambda last: True)),
        ("syncs",),
        "all-reduces per window 3, expected 1, on two ranks",
    ),
    "D2 no_sync on all": Fault(
        _accumulated(_ddp(lambda last: False)), ("divergence",), "gradients of the ranks differ by"
    ),
    "D3 only backward in no_sync": Fault(
        _accumulated(_ddp(lambda last: last, "backward")),
        ("syncs",),
        "all-reduces per window 3, expected 1",
    ),
    "D4 no_sync inverted": Fault(
        _accumulated(_ddp(lambda last: not last)),
        ("divergence", "syncs"),
        "gradients of the ranks differ by",
    ),
    "D5 module called": Fault(
        _accumulated(_ddp(lambda last: True, "bypassed")),
        ("divergence", "syncs"),
        "gradients of the ranks differ by",
    ),
    "D6 divided by world size": Fault(
        _every(backward(world=-1, forwards=[forward()]), step(), update(), zero()),
        ("gradient",),
        "(× 1/W)",
    ),
}
