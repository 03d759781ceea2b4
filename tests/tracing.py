"""Traces built by hand, for tests of rules and of the replay.

    from tests.tracing import backward, clip, loop, step, trace, unscale, update, zero

    wrong = trace(loop([backward(), clip(), step(), update(), zero()]))             # every micro-batch, K = 1

    def body(i: int) -> list[Item]:                                                 # K = 3, accumulated
        at = boundary((i + 1) % 3 == 0, "(i + 1) % k == 0")
        return [backward(divided=True), *when(at, unscale(), clip(), step(), update(), zero())]

    right = trace(loop(body), window=3)

Everything has a default: the optimizer is ``"optimizer"``, the scaler ``"scaler"``, the model ``"model"``, a
loop has two epochs of seven micro-batches.  Roles are collected from the events; pass `roles` to say more of
one.  A constructor's `Site` is the place in the test file where it is called: equal places, equal statements.
A flat list works too (``trace([backward(), step()])``): each backward in it starts the next micro-batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ampcheck import events as ev
from ampcheck.events import PLAIN, Site, Unit
from ampcheck.finding import Finding, Witness
from ampcheck.gradients import State, apply
from ampcheck.rule import Severity
from ampcheck.trace import Guard, Record, Role, Trace, Window

__all__ = [
    "Item",
    "autocast",
    "average",
    "backward",
    "boundary",
    "build",
    "checkpoint",
    "choice",
    "clip",
    "convert",
    "deprecated",
    "differentiate",
    "edit",
    "engine_call",
    "escape",
    "finding",
    "finite",
    "forward",
    "internal",
    "jump",
    "loop",
    "part",
    "precision",
    "raw_step",
    "read",
    "read_scale",
    "reduce",
    "result_test",
    "scale_test",
    "schedule",
    "state_dict",
    "step",
    "trace",
    "unscale",
    "update",
    "when",
    "zero",
]


@dataclass(frozen=True)
class ScaleTest:
    """A test of two readings of the scale by their names; the trace turns it into a `SkipTest`."""

    left: str
    op: str
    right: str
    holds: bool = True


@dataclass(frozen=True)
class Item:
    """One event on its way into a trace; `label` names a reading of the scale."""

    event: ev.Event
    guards: tuple[Guard | ScaleTest, ...] = ()
    label: str = ""
    micro: int | None = None
    epoch: int = 0
    iteration: tuple[int, ...] = ()


Body = Sequence[Item] | Callable[[int], Sequence[Item]]


def _site() -> Site:
    """The place of the call two frames up."""
    frame = sys._getframe(2)
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    line, end_line, column, end_column = (p or 0 for p in positions)
    return Site("train.py", line, column + 1, end_line, end_column + 1)


def part(*scalers: str, window: int = 0, world: int = 0, other: Iterable[str] = ()) -> Unit:
    """A unit: `scalers` by name (twice for a nested scale), exponents of K and W, other factors."""
    unit = Unit((), window, world, frozenset(other))
    for scaler in scalers:
        unit = unit.times(Unit(((scaler, 1),)))
    return unit


def forward(
    model: str = "model", wrapper: str = "ddp", bypassed: bool = False, synced: bool = True
) -> ev.Forward:
    """A pass through a wrapped model."""
    return ev.Forward(model, wrapper, bypassed, synced)


def backward(
    *reaches: str,
    scaler: str | None = "scaler",
    divided: bool | int = False,
    world: int = 0,
    parts: Sequence[Unit] = (),
    reduction: Literal["mean", "sum", "unknown"] = "mean",
    forwards: Sequence[ev.Forward] = (),
    assumed: Sequence[str] = (),
    synced: bool = True,
    micro: int = -1,
    autocast: str = "",
    found: bool = False,
) -> Item:
    """``scaler.scale(loss / k).backward()``; `divided` is how often by K, `parts` overrides the unit."""
    unit = part(*([scaler] if scaler else []), window=-int(divided), world=world)
    loss = ev.Loss(tuple(parts) or (unit,), reduction, tuple(forwards))
    event = ev.Backward(
        loss=loss,
        reaches=reaches or ("optimizer",),
        micro=micro,
        assumed=tuple(assumed),
        synced=synced,
        autocast=autocast,
        found=found,
        site=_site(),
    )
    return Item(event)


def engine_call(call: str, *roles: str, library: str = "deepspeed") -> Item:
    """A call of an engine's own protocol."""
    return Item(ev.EngineCall(library=library, call=call, roles=roles, site=_site()))


def unscale(optimizer: str = "optimizer", scaler: str = "scaler") -> Item:
    """``scaler.unscale_(optimizer)``."""
    return Item(ev.Unscale(scaler=scaler, optimizer=optimizer, site=_site()))


def clip(
    *owners: str,
    style: Literal["norm", "value"] = "norm",
    by: Literal["torch", "hand", "hook", "model"] = "torch",
    threshold: float | None = 1.0,
    whole: bool = True,
    per_parameter: bool = False,
    error_if_nonfinite: bool = False,
    nothing: bool = False,
    exhausted: Item | None = None,
    assumed: bool = False,
) -> Item:
    """``clip_grad_norm_``, of the default optimizer unless owners are named or `nothing` is left to clip.

    `exhausted`: what has consumed the iterator that it is given.
    """
    event = ev.Clip(
        style=style,
        owners=() if nothing else owners or ("optimizer",),
        by=by,
        threshold=threshold,
        whole=whole,
        per_parameter=per_parameter,
        error_if_nonfinite=error_if_nonfinite,
        exhausted=exhausted.event.site if exhausted else None,
        assumed=assumed,
        site=_site(),
    )
    return Item(event)


def edit(
    effect: Literal["multiply", "shift", "nonlinear", "hide"], *owners: str, factor: Unit = PLAIN
) -> Item:
    """Gradients changed by hand: ``edit("multiply", factor=part(window=-1))`` is ``p.grad /= k``."""
    return Item(ev.Edit(effect=effect, owners=owners or ("optimizer",), factor=factor, site=_site()))


def read(*owners: str) -> Item:
    """A norm of gradients is taken."""
    return Item(ev.Read(owners=owners or ("optimizer",), site=_site()))


def step(
    optimizer: str = "optimizer",
    scaler: str | None = "scaler",
    closure: bool = False,
    passed: Literal["", "keyword", "positional"] = "",
) -> Item:
    """``scaler.step(optimizer)``; `passed`: how it is given a closure."""
    event = ev.Step(
        optimizer=optimizer, scaler=scaler, closure=closure or bool(passed), passed=passed, site=_site()
    )
    return Item(event)


def differentiate(
    *owners: str, scaler: str = "scaler", use: Literal["", "penalty", "step"] = "penalty"
) -> Item:
    """``torch.autograd.grad(scaler.scale(loss), ...)``, and what becomes of it undivided."""
    loss = ev.Loss((part(scaler),))
    return Item(ev.Differentiate(loss=loss, owners=owners or ("optimizer",), use=use, site=_site()))


def result_test(optimizer: str = "optimizer", scaler: str = "scaler") -> Item:
    """``if scaler.step(optimizer):``, where the step is an item of its own."""
    return Item(ev.ResultTest(optimizer=optimizer, scaler=scaler, site=_site()))


def raw_step(optimizer: str = "optimizer", closure: bool = False) -> Item:
    """``optimizer.step()``."""
    return Item(ev.Step(optimizer=optimizer, scaler=None, closure=closure, site=_site()))


def update(scaler: str = "scaler", explicit: bool = False) -> Item:
    """``scaler.update()``."""
    return Item(ev.Update(scaler=scaler, explicit=explicit, site=_site()))


def zero(*owners: str, to_none: bool = True) -> Item:
    """``optimizer.zero_grad()``."""
    return Item(ev.ZeroGrad(owners=owners or ("optimizer",), to_none=to_none, site=_site()))


def schedule(
    scheduler: str = "scheduler",
    *optimizers: str,
    counts: Literal["updates", "epochs", "metric", "unknown"] = "updates",
) -> Item:
    """``scheduler.step()``."""
    event = ev.ScheduleStep(
        scheduler=scheduler, optimizers=optimizers or ("optimizer",), counts=counts, site=_site()
    )
    return Item(event)


def average(name: str = "ema") -> Item:
    """A moving average takes in the current weights."""
    return Item(ev.AverageUpdate(average=name, site=_site()))


def read_scale(label: str, scaler: str = "scaler") -> Item:
    """``label = scaler.get_scale()``; `scale_test` refers to the label's latest reading."""
    return Item(ev.ReadScale(scaler=scaler, reading=-1, site=_site()), label=label)


def reduce(*owners: str) -> Item:
    """``dist.all_reduce(p.grad)`` by hand."""
    return Item(ev.Reduce(owners=owners or ("optimizer",), site=_site()))


def jump(kind: Literal["continue", "break", "return", "raise"] = "continue") -> Item:
    """A jump; the rest of the iteration is for the caller to leave out."""
    return Item(ev.Jump(kind=kind, site=_site()))


def autocast(dtype: str = "float16", device: str = "cuda") -> Item:
    """An autocast region is entered."""
    return Item(ev.Autocast(dtype=dtype, device=device, site=_site()))


def convert(dtype: str = "float16", model: str = "model") -> Item:
    """``model.half()``."""
    return Item(ev.Convert(model=model, dtype=dtype, site=_site()))


def build(
    role: str, kind: Literal["scaler", "optimizer", "scheduler", "average", "wrapper"], detail: str = ""
) -> Item:
    """A role's object is constructed."""
    return Item(ev.Build(kind=kind, role=role, detail=detail, site=_site()))


def deprecated(name: str = "torch.cuda.amp.GradScaler", instead: str = "torch.amp.GradScaler") -> Item:
    """A deprecated name is used."""
    return Item(ev.Deprecated(name=name, instead=instead, site=_site()))


def internal(name: str = "_scale", scaler: str = "scaler", written: bool = False) -> Item:
    """``scaler._scale``."""
    return Item(ev.Internal(scaler=scaler, name=name, written=written, site=_site()))


def state_dict(scaler: str = "scaler") -> Item:
    """``scaler.state_dict()`` while an update is still to come."""
    return Item(ev.StateDict(scaler=scaler, site=_site()))


def checkpoint(*optimizers: str, sure: bool = True) -> Item:
    """A checkpoint without the scaler's state, as it ends a trace."""
    return Item(ev.Checkpoint(optimizers=optimizers or ("optimizer",), sure=sure, site=_site()))


def precision(
    owner: str,
    kind: Literal["deepspeed", "accelerate", "accelerator", "arguments"],
    *,
    fp16: bool | None = None,
    bf16: bool | None = None,
    within: str = "",
    sure: bool = True,
) -> Item:
    """What a configuration says of mixed precision."""
    event = ev.Precision(owner=owner, kind=kind, fp16=fp16, bf16=bf16, within=within, sure=sure, site=_site())
    return Item(event)


def escape(*roles: str, into: str = "unseen") -> Item:
    """Roles are handed to code that cannot be seen."""
    return Item(ev.Escape(roles=roles, into=into, site=_site()))


def boundary(holds: bool, text: str = "(i + 1) % k == 0") -> Guard:
    """A computed boundary test, as `when` takes it."""
    return Guard(text, holds, _site(), boundary=True)


def finite(holds: bool = True, text: str = "torch.isfinite(loss)") -> Guard:
    """A test for finiteness."""
    return Guard(text, holds, _site(), varying=True, finite=True)


def choice(text: str, holds: bool = True, varying: bool = False) -> Guard:
    """Any other test that the code leaves open."""
    return Guard(text, holds, _site(), varying=varying)


def scale_test(left: str, op: str, right: str, holds: bool = True) -> ScaleTest:
    """``if left op right:`` over labels of `read_scale`."""
    return ScaleTest(left, op, right, holds)


def when(guard: Guard | ScaleTest, *items: Item) -> list[Item]:
    """The items under one more guard; none of them where a boundary test does not hold."""
    if isinstance(guard, Guard) and guard.boundary and not guard.holds:
        return []
    return [replace(item, guards=(guard, *item.guards)) for item in items]


def loop(
    body: Body,
    *,
    length: int = 7,
    epochs: int = 2,
    epoch_start: Sequence[Item] = (),
    epoch_end: Sequence[Item] = (),
    before: Sequence[Item] = (),
) -> list[Item]:
    """`body` for every micro-batch of every epoch: a list, or a function of the index in the epoch."""
    placed = list(before)
    for epoch in range(epochs):
        first = epoch * length
        placed += [replace(item, micro=first, epoch=epoch, iteration=(epoch,)) for item in epoch_start]
        for i in range(length):
            items = body(i) if callable(body) else body
            at = {"micro": first + i, "epoch": epoch, "iteration": (epoch, i)}
            placed += [replace(item, **at) for item in items]  # type: ignore[arg-type]
        last = first + length - 1
        placed += [replace(item, micro=last, epoch=epoch, iteration=(epoch,)) for item in epoch_end]
    return placed


def trace(
    items: Sequence[Item],
    *,
    window: int | None = None,
    declared: Iterable[str] = ("division", "step"),
    literal: bool = False,
    roles: Sequence[Role] = (),
    choices: Sequence[Guard] = (),
    complete: bool = True,
    root: str = "train",
) -> Trace:
    """The trace of the items, with the gradients' state around each."""
    state, micro = State(), -1
    records: list[Record] = []
    readings: dict[str, int] = {}
    for index, item in enumerate(items):
        if item.micro is not None:
            micro = item.micro
        elif isinstance(item.event, ev.Backward):
            micro = item.event.micro if item.event.micro >= 0 else micro + 1
        event = _numbered(item, micro, readings, sum(isinstance(r.event, ev.ReadScale) for r in records))
        effect = apply(state, event, index)
        guards = tuple(_guard(g, readings, event.site) for g in item.guards)
        records.append(
            Record(
                index=index,
                event=event,
                before=state,
                after=effect.state,
                micro=max(micro, 0),
                epoch=item.epoch,
                iteration=item.iteration or ((item.epoch, micro) if micro >= 0 else ()),
                guards=guards,
                refused=effect.refused,
            )
        )
        state = effect.state
    named = {role.id: role for role in [*_roles(records), *roles]}
    declaration = Window(window, "k", literal, frozenset(declared)) if window else None
    return Trace(root, tuple(records), named, tuple(choices), declaration, complete)


def finding(
    subject: Trace,
    record: int | Callable[[ev.Event], bool],
    code: str = "AMP101",
    name: str = "clip-before-unscale",
    severity: Severity = "error",
) -> Finding:
    """A finding at a record, given by its index or by a test that its event is the first to satisfy."""
    if callable(record):
        record = next(r.index for r in subject.records if record(r.event))
    site = subject.records[record].event.site
    return Finding(code, name, severity, "certain", site, "", witness=Witness(subject, record))


def _numbered(item: Item, micro: int, readings: dict[str, int], next_reading: int) -> ev.Event:
    if isinstance(item.event, ev.Backward) and item.event.micro < 0:
        return replace(item.event, micro=micro)
    if isinstance(item.event, ev.ReadScale):
        readings[item.label] = next_reading
        return replace(item.event, reading=next_reading)
    return item.event


def _guard(guard: Guard | ScaleTest, readings: dict[str, int], site: Site) -> Guard:
    if isinstance(guard, Guard):
        return guard
    test = ev.SkipTest("scaler", readings[guard.left], guard.op, readings[guard.right])
    return Guard(f"{guard.left} {guard.op} {guard.right}", guard.holds, site, varying=True, skip=test)


def _roles(records: Sequence[Record]) -> Iterator[Role]:
    """Every role that an event names, as one that is known; optimizers hold one model's parameters."""
    backwards = [r.event for r in records if isinstance(r.event, ev.Backward)]
    wrappers = {f.model: f.wrapper for b in backwards for f in b.loss.forwards}
    for model in wrappers or {"model": ""}:
        yield Role(model, "model", model, detail=wrappers.get(model, ""))
    first_model = next(iter(wrappers), "model")
    for event in (r.event for r in records):
        match event:
            case ev.Backward(loss=loss, reaches=reaches):
                yield from (Role(s, "scaler", s, detail="GradScaler") for u in loss.parts for s, _ in u.scale)
                yield from (_optimizer(o, first_model) for o in reaches if not o.startswith("free:"))
            case ev.Unscale(scaler=scaler, optimizer=optimizer):
                yield Role(scaler, "scaler", scaler, detail="GradScaler")
                yield _optimizer(optimizer, first_model)
            case ev.Step(optimizer=optimizer, scaler=used):
                yield _optimizer(optimizer, first_model)
                if used:
                    yield Role(used, "scaler", used, detail="GradScaler")
            case ev.Update(scaler=scaler):
                yield Role(scaler, "scaler", scaler, detail="GradScaler")
            case ev.ScheduleStep(scheduler=scheduler):
                yield Role(scheduler, "scheduler", scheduler, detail="LambdaLR")
            case ev.AverageUpdate(average=name):
                yield Role(name, "average", name)
            case _:
                pass


def _optimizer(identifier: str, model: str) -> Role:
    return Role(identifier, "optimizer", identifier, detail="SGD", models=(model,))
