"""What the gradients carry at each line, in words."""

from __future__ import annotations

import pytest

from ampcheck import events as ev
from ampcheck.events import Event, Loss, Site, Unit
from ampcheck.report.carries import carries
from ampcheck.trace import Role
from tests.face.traces import trace_of

AT = Site("train.py", 1, 1, 1, 9)
SCALED = Unit(scale=(("scaler", 1),))
WINDOWED = Unit(scale=(("scaler", 1),), window=-1)


def backward(unit: Unit = SCALED, micro: int = 0, reaches: tuple[str, ...] = ("opt",)) -> ev.Backward:
    return ev.Backward(site=AT, loss=Loss((unit,)), reaches=reaches, micro=micro)


def clip(threshold: float | None = 1.0, style: str = "norm", per_parameter: bool = False) -> ev.Clip:
    return ev.Clip(
        site=AT,
        style=style,  # type: ignore[arg-type]
        owners=("opt",),
        threshold=threshold,
        per_parameter=per_parameter,
    )


UNSCALE = ev.Unscale(site=AT, scaler="scaler", optimizer="opt")
STEP = ev.Step(site=AT, optimizer="opt", scaler="scaler")
RAW_STEP = ev.Step(site=AT, optimizer="opt")
UPDATE = ev.Update(site=AT, scaler="scaler")
ZERO = ev.ZeroGrad(site=AT, owners=("opt",))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([backward(Unit())], "gradients"),
        ([backward()], "gradients × S"),
        ([backward(WINDOWED)], "gradients × S / K"),
        ([backward(Unit(window=-1))], "gradients / K"),
        ([backward(WINDOWED), backward(WINDOWED, 1)], "gradients × S / K, 2 micro-batches"),
        ([backward(), UNSCALE, backward(micro=1)], "gradients, mixed: 1 and S, 2 micro-batches"),
        (
            [backward(reaches=("opt",)), backward(Unit(), 1, ("opt", "b"))],
            "opt: gradients, mixed: S and 1, 2 micro-batches; b: gradients",
        ),
        ([clip()], "clips no gradients"),
        ([backward(Unit()), clip()], "clipped at 1.0"),
        ([backward(WINDOWED), clip(0.5)], "clipped at 0.5 / S"),
        ([backward(), clip(None, "value")], "clipped by value at the threshold / S"),
        ([backward(), clip(2.0, per_parameter=True)], "clipped one by one at 2.0 / S"),
        ([backward(), ZERO, UNSCALE], "unscales no gradients"),
        ([backward(), UNSCALE], "unscaled here"),
        ([backward(), clip(), UNSCALE], "unscaled here, after the clip"),
        ([backward(), UNSCALE, UPDATE, UNSCALE], "divided by S once too often: gradients / S"),
        (
            [backward(), UNSCALE, UNSCALE],
            "torch raises: unscale_() has already been called on this optimizer since the last update()",
        ),
        ([RAW_STEP], "steps on no gradients"),
        ([backward(), STEP], "unscaled here"),
        ([backward(), UNSCALE, STEP], "steps on gradients"),
        ([backward(), RAW_STEP], "steps on gradients × S"),
        ([backward(), UNSCALE, UPDATE, STEP], "divides by S and steps on gradients / S"),
        ([backward(), STEP, UPDATE, RAW_STEP], "steps again on gradients"),
        ([backward(), STEP, UPDATE], "updates the scale"),
        ([backward(), ZERO], "zeroes gradients × S"),
        ([backward(), ev.Edit(site=AT, effect="shift", owners=("opt",))], "shifted: gradients × S"),
        (
            [backward(), ev.Edit(site=AT, effect="multiply", owners=("opt",), factor=Unit(window=-1))],
            "multiplied: gradients × S / K",
        ),
        ([backward(), ev.Read(site=AT, owners=("opt",))], "reads gradients × S"),
        ([backward(), ev.Read(site=AT, owners=())], "reads gradients"),
        ([ev.Reduce(site=AT, owners=("opt",))], "reduces no gradients"),
        ([ev.ReadScale(site=AT, scaler="scaler", reading=0)], "reads the scale"),
        ([ev.Jump(site=AT, kind="continue")], "continue: the rest of the iteration does not run"),
        ([ev.ScheduleStep(site=AT, scheduler="s")], "advances the schedule"),
        ([ev.AverageUpdate(site=AT, average="ema")], "takes the weights into the average"),
        ([ev.Autocast(site=AT, dtype="bfloat16")], "autocast to bfloat16"),
        ([ev.Autocast(site=AT, dtype="")], "autocast"),
        ([ev.Convert(site=AT, model="model", dtype="float16")], "model becomes float16"),
        ([ev.Build(site=AT, kind="scaler", role="scaler")], "builds the scaler scaler"),
        ([ev.Deprecated(site=AT, name="a", instead="b")], "now b"),
        ([ev.Escape(site=AT, roles=("opt",), into="helper")], "handed to helper, which is not visible"),
        ([ev.Event(site=AT)], ""),
    ],
)
def test_the_last_event_in_words(events: list[Event], said: str) -> None:
    trace = trace_of(*events)
    assert carries(trace, trace.records[-1]) == said


def test_several_optimizers_are_told_apart() -> None:
    roles = [Role("opt", "optimizer", "opt"), Role("other", "optimizer", "other")]
    trace = trace_of(backward(Unit()), RAW_STEP, roles=roles)
    assert carries(trace, trace.records[-1]) == "steps on gradients (opt)"


def test_a_backward_under_no_sync_says_so() -> None:
    event = ev.Backward(site=AT, loss=Loss(), reaches=("opt",), micro=0, synced=False)
    trace = trace_of(event)
    assert carries(trace, trace.records[-1]) == "gradients, not synchronised"
