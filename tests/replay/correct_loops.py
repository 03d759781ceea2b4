"""Correct loops in many styles: the replay must find nothing in any of them, whatever the observable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ampcheck import events as ev
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    autocast,
    average,
    backward,
    boundary,
    choice,
    clip,
    edit,
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


def _every(*items: Item, **options: Sequence[Item]) -> Trace:
    return trace(loop(items, **options))  # type: ignore[arg-type]


def _accumulated(body: Callable[[int], Sequence[Item]], k: int = 3, **options: Sequence[Item]) -> Trace:
    return trace(loop(body, length=2 * k + 1, **options), window=k)  # type: ignore[arg-type]


def _at(i: int, k: int = 3) -> Callable[..., list[Item]]:
    return lambda *items: when(boundary((i + 1) % k == 0), *items)


def _plain_window(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i)(unscale(), clip(), step(), update(), zero())]


def _flushed(i: int) -> list[Item]:
    return [backward(divided=True), *when(boundary((i + 1) % 3 == 0 or i == 6), step(), update(), zero())]


def _across_epochs() -> Trace:
    """``step % k`` with a counter that is never reset."""
    items = []
    for micro in range(14):
        items += [backward(divided=True, micro=micro), *_at(micro)(step(), update(), zero())]
    return trace(items, window=3)


def _divided_by_hand(i: int) -> list[Item]:
    divide = edit("multiply", factor=part(window=-1))
    return [backward(), *_at(i)(unscale(), divide, clip(), step(), update(), zero())]


def _divided_while_scaled(i: int) -> list[Item]:
    return [backward(), *_at(i)(edit("multiply", factor=part(window=-1)), step(), update(), zero())]


def _zero_at_top(i: int) -> list[Item]:
    start = when(boundary(i % 3 == 0, "i % k == 0"), zero())
    return [*start, backward(divided=True), *_at(i)(step(), update())]


def _schedule_in_window(i: int, k: int = 3) -> list[Item]:
    test = when(scale_test("before", "<=", "after"), schedule())
    at = _at(i, k)
    return [
        backward(divided=True),
        *at(read_scale("before"), step(), update(), read_scale("after"), zero(), *test),
    ]


def _average_at_boundary(i: int) -> list[Item]:
    return [backward(divided=True), *_at(i)(step(), update(), zero(), average())]


def _two_windows(i: int) -> list[Item]:
    ends = _at(i)(unscale("a"), unscale("b"), clip("a", "b"), step("a"), step("b"), update(), zero("a", "b"))
    return [backward("a", "b", divided=True), *ends]


GENERATOR = (
    zero("d"),
    backward("d"),
    step("d"),
    zero("g"),
    backward("g", "d"),
    step("g"),
)


def _critic(i: int) -> list[Item]:
    generator = when(
        boundary((i + 1) % 3 == 0, "(i + 1) % n_critic == 0"), zero("g"), backward("g", "d"), step("g")
    )
    return [zero("d"), backward("d"), step("d"), *generator, update()]


def _no_sync(i: int) -> list[Item]:
    last = (i + 1) % 3 == 0
    passes = [forward(synced=last)]
    return [backward(divided=True, forwards=passes, synced=last), *_at(i)(step(), update(), zero())]


def _no_sync_forward_only(i: int) -> list[Item]:
    passes = [forward(synced=(i + 1) % 3 == 0)]
    return [backward(divided=True, forwards=passes), *_at(i)(step(), update(), zero())]


def _out_of_memory(i: int) -> list[Item]:
    if i == 1:
        return [*when(choice("out of memory", varying=True), zero(), jump())]
    return [backward(), step(), update(), zero()]


def _skips_micro_batch(i: int) -> list[Item]:
    """``if not isfinite(loss): continue`` before the backward; the boundary counts only what was trained."""
    return [jump()] if i == 2 else [backward(), step(), update(), zero()]


def _norm_test_skips(i: int) -> list[Item]:
    if i == 2:
        return [backward(), unscale(), update(), zero()]
    return [backward(), unscale(), read(), step(), update(), zero()]


def _truncated(i: int) -> list[Item]:
    """Back-propagation through time: a step for every other backward, no window declared."""
    return [backward(), *([step(), update(), zero()] if i % 2 else [])]


def _loss_summed(i: int) -> list[Item]:
    """Losses are summed over the window, and one backward ends it."""
    parts = [part("scaler", window=-1)] * 3
    return [*_at(i)(backward(parts=parts), step(), update(), zero())]


def _tokens(i: int) -> list[Item]:
    parts = [part("scaler", other=["tokens_in_window"])]
    return [backward(parts=parts, reduction="sum"), *_at(i)(step(), update(), zero())]


def _generator_window(i: int) -> list[Item]:
    """D steps on every micro-batch, G accumulates."""
    generator = _at(i)(step("g", scaler="scaler_g"), update("scaler_g"), zero("g"))
    return [
        zero("d"),
        backward("d", scaler="scaler_d"),
        step("d", scaler="scaler_d"),
        update("scaler_d"),
        backward("g", scaler="scaler_g", divided=True),
        *generator,
    ]


FREE = Role("optimizer", "optimizer", "optimizer", models=("model",), partial=True)

CORRECT: dict[str, Trace] = {
    "plain": _every(backward(), step(), update(), zero()),
    "no scaler": _every(backward(scaler=None), raw_step(), zero()),
    "zero at top": _every(zero(), backward(), step(), update()),
    "zero between forward and backward": _every(zero(), backward(), unscale(), step(), update()),
    "zero to zeros": _every(zero(to_none=False), backward(), step(), update()),
    "clipped": _every(backward(), unscale(), clip(), step(), update(), zero()),
    "clipped by value": _every(backward(), unscale(), clip(style="value"), step(), update(), zero()),
    "clipped by hand, no scaler": _every(backward(scaler=None), clip(by="hand"), raw_step(), zero()),
    "raises on infinity, no scaler": _every(
        backward(scaler=None), clip(error_if_nonfinite=True), raw_step(), zero()
    ),
    "accumulated": _accumulated(_plain_window),
    "accumulated, K = 3, unclipped": _accumulated(
        lambda i: [backward(divided=True), *_at(i)(step(), update(), zero())]
    ),
    "accumulated, no scaler": _accumulated(
        lambda i: [backward(scaler=None, divided=True), *_at(i)(raw_step(), zero())]
    ),
    "accumulated, K = 4": _accumulated(lambda i: _schedule_in_window(i, 4), 4),
    "leftover dropped at the epoch's start": _accumulated(
        lambda i: [backward(divided=True), *_at(i)(step(), update(), zero())], epoch_start=[zero()]
    ),
    "leftover flushed in the loop": _accumulated(_flushed),
    "leftover flushed after the loop": _accumulated(
        _plain_window, epoch_end=[unscale(), clip(), step(), update(), zero()]
    ),
    "counted across epochs": _across_epochs(),
    "gradients divided by hand": _accumulated(_divided_by_hand),
    "gradients divided while scaled": _accumulated(_divided_while_scaled),
    "zero at the window's start": _accumulated(_zero_at_top),
    "losses summed over the window": _accumulated(_loss_summed),
    "divided by tokens": _accumulated(_tokens),
    "two losses in one iteration": _every(backward(), backward(), step(), update(), zero()),
    "penalty in one loss": _every(backward(parts=[part("scaler"), part("scaler")]), step(), update(), zero()),
    "truncated back-propagation": trace(loop(_truncated)),
    "masks while scaled": _every(backward(), edit("multiply"), step(), update(), zero()),
    "noise after unscale": _every(backward(), unscale(), edit("shift"), clip(), step(), update(), zero()),
    "read after the step": _every(backward(), step(), read(), update(), zero()),
    "read after unscale": _every(backward(), unscale(), read(), clip(), step(), update(), zero()),
    "two optimizers share a scaler": _every(
        backward("a", "b"),
        unscale("a"),
        unscale("b"),
        clip("a", "b"),
        step("a"),
        step("b"),
        update(),
        zero("a", "b"),
    ),
    "one unscale forgotten, nothing reads": _every(
        backward("a", "b"), unscale("a"), clip("a"), step("a"), step("b"), update(), zero("a", "b")
    ),
    "two optimizers, two clips": _every(
        backward("a", "b"),
        unscale("a"),
        clip("a"),
        unscale("b"),
        clip("b"),
        step("a"),
        step("b"),
        update(),
        zero("a", "b"),
    ),
    "two optimizers accumulate": _accumulated(_two_windows),
    "GAN, one update": _every(*GENERATOR, update()),
    "GAN, one scaler each": _every(
        zero("d"),
        backward("d", scaler="scaler_d"),
        step("d", scaler="scaler_d"),
        update("scaler_d"),
        zero("g"),
        backward("g", "d", scaler="scaler_g"),
        step("g", scaler="scaler_g"),
        update("scaler_g"),
    ),
    "GAN, an update after each": _every(*GENERATOR[:3], update(), *GENERATOR[3:], update()),
    "GAN, critic steps more often": trace(loop(_critic), window=3, declared=["step"]),
    "GAN, only G accumulates": _accumulated(_generator_window),
    "SAM, two passes": _every(
        backward(), unscale(), step(), update(), zero(), backward(), step(), update(), zero()
    ),
    "SAM, hidden first step": _every(
        backward(), unscale(), update(), zero(), backward(), step(), update(), zero()
    ),
    "schedule by epoch": _every(backward(), step(), update(), zero(), epoch_end=[schedule(counts="epochs")]),
    "schedule by epoch, class unknown": _every(
        backward(), step(), update(), zero(), epoch_end=[schedule(counts="unknown")]
    ),
    "schedule guarded by the scale": _every(
        backward(),
        read_scale("before"),
        step(),
        update(),
        read_scale("after"),
        *when(scale_test("before", "<=", "after"), schedule()),
        zero(),
    ),
    "schedule guarded by the scale, negated": _every(
        backward(),
        read_scale("before"),
        step(),
        update(),
        read_scale("after"),
        zero(),
        *when(scale_test("after", "<", "before", holds=False), schedule()),
    ),
    "schedule guarded at the boundary": _accumulated(_schedule_in_window),
    "two schedules": _every(
        backward(),
        read_scale("before"),
        step(),
        update(),
        read_scale("after"),
        *when(scale_test("before", "<=", "after"), schedule("warmup"), schedule("cosine")),
        zero(),
    ),
    "average after the step": _every(backward(), step(), update(), average(), zero()),
    "average at the boundary": _accumulated(_average_at_boundary),
    "explicit update": _every(backward(), step(), update(), update(explicit=True), zero()),
    "skipped micro-batch": trace(loop(_skips_micro_batch)),
    "out of memory: zero and continue": trace(loop(_out_of_memory)),
    "own norm test skips the step": trace(loop(_norm_test_skips)),
    "own norm test at run time": _every(
        backward(), unscale(), read(), *when(finite(text="isfinite(grad_norm)"), step()), update(), zero()
    ),
    "finite loss only": _every(*when(finite(), backward(), step(), update()), zero()),
    "float16 autocast": _every(autocast("float16"), backward(), step(), update(), zero()),
    "no_sync until the last": _accumulated(_no_sync),
    "no_sync around the forward": _accumulated(_no_sync_forward_only),
    "DDP, every micro-batch": _every(
        backward(forwards=[forward()]), unscale(), clip(), step(), update(), zero()
    ),
    "reduced by hand": _every(
        backward(scaler=None), reduce(), edit("multiply", factor=part(world=-1)), raw_step(), zero()
    ),
    "multiplied by the world size": _every(backward(world=1, forwards=[forward()]), step(), update(), zero()),
    "frozen parameters in the clip": trace(
        loop([backward(), unscale(), clip("optimizer", "free:model"), step(), update(), zero()]), roles=[FREE]
    ),
    "free gradients in the clip, no scaler": _every(
        backward("optimizer", "free:model", scaler=None),
        clip("optimizer", "free:model"),
        raw_step(),
        zero("optimizer", "free:model"),
    ),
    "step before any gradient": trace([raw_step(), *loop([backward(scaler=None), raw_step(), zero()])]),
}


def is_backward(event: ev.Event) -> bool:
    """Whether an event is a backward."""
    return isinstance(event, ev.Backward)
