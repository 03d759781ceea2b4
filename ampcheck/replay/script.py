"""Acts as a script: plain data that can be written down as JSON, sent to another process and executed there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ampcheck import events as ev
from ampcheck.protocol import Act
from ampcheck.replay.practice import Loop
from ampcheck.replay.scenarios import ITEMS, THRESHOLD
from ampcheck.replay.unfolding import NEGATIONS
from ampcheck.trace import Trace

__all__ = ["Cast", "Op", "cast", "corrected", "sharding", "write"]

Op = dict[str, Any]
Cast = dict[str, Any]


def cast(trace: Trace, loop: Loop) -> Cast:
    """Who takes part: owners and scalers in a fixed order, schedules, averages, and what is wrapped for ranks."""
    owners: dict[str, None] = dict.fromkeys(loop.optimizers)
    scalers: dict[str, None] = dict.fromkeys(loop.practice.scalers.values())
    schedules: dict[str, str] = {}
    averages: dict[str, None] = {}
    wrapped: dict[str, None] = {}
    converted: dict[str, list[str]] = {}
    for record in (*loop.records, *trace.records):
        match record.event:
            case ev.Backward(loss=loss, reaches=reaches):
                owners.update(dict.fromkeys(reaches))
                scalers.update(dict.fromkeys(s for u in loss.parts for s, _ in u.scale))
                wrapped.update(dict.fromkeys(o for o in reaches if _is_wrapped(trace, loss, o)))
            case ev.Step(optimizer=optimizer, scaler=scaler):
                owners[optimizer] = None
                scalers.update({scaler: None} if scaler else {})
            case ev.Unscale(scaler=scaler, optimizer=optimizer):
                owners[optimizer], scalers[scaler] = None, None
            case ev.Update(scaler=scaler) | ev.ReadScale(scaler=scaler) | ev.Internal(scaler=scaler):
                scalers[scaler] = None
            case (
                ev.Clip(owners=named)
                | ev.Edit(owners=named)
                | ev.Read(owners=named)
                | ev.Reduce(owners=named)
                | ev.ZeroGrad(owners=named)
                | ev.Differentiate(owners=named)
            ):
                owners.update(dict.fromkeys(named))
            case ev.ScheduleStep(scheduler=role) as event if _is_executable(trace, event):
                schedules.setdefault(role, next(iter((*event.optimizers, *loop.optimizers)), ""))
            case ev.AverageUpdate(average=role):
                averages[role] = None
            case ev.Convert(model=model):
                converted[model] = []
            case _:
                pass
    for model in converted:
        converted[model] = [o for o in owners if model in _models(trace, o) or not _models(trace, o)]
    optimizers = [o for o in owners if not o.startswith("free:")]
    return {
        "owners": list(owners),
        "optimizers": optimizers,
        "scalers": list(scalers),
        "schedules": {role: o for role, o in schedules.items() if o},
        "averages": list(averages),
        "wrapped": list(wrapped),
        "converted": converted,
        "window": loop.window,
        "ranks": bool(wrapped) or any(_mentions_world(r.event) for r in trace.records),
        "reduced": list(dict.fromkeys(o for _, e in trace.of(ev.Reduce) for o in e.owners)),
        "clips": any(isinstance(r.event, ev.Clip) for r in trace.records),
        "thresholds": _thresholds(trace) or [THRESHOLD],
        "said": bool(_thresholds(trace)),
        "length": _length(trace),
        "condition": trace.condition,
        "items": False,
        "half": False,
        "classes": {o: c for o in optimizers if (c := _class(trace, o))},
        "internals": any(isinstance(r.event, ev.Internal) for r in trace.records),
    }


USABLE = (1e-3, 1e3)
"""Thresholds with which the gradients of every scenario stay far from the ends of float32."""


def _thresholds(trace: Trace) -> list[float]:
    """Every M that the code says, the largest last."""
    said = {e.threshold for _, e in trace.of(ev.Clip) if e.threshold is not None}
    return sorted(m for m in said if USABLE[0] <= m <= USABLE[1])


def _length(trace: Trace) -> str:
    """How the code spells a K that it leaves open, and that a number stands for; "" where it is the code's own."""
    window = trace.window
    return "" if window is None or window.number == window.length else window.text


def _class(trace: Trace, optimizer: str) -> str:
    """The class of an optimizer in torch.optim; "" for any other."""
    package, _, name = (trace.roles[optimizer].detail if optimizer in trace.roles else "").rpartition(".")
    return name if package == "torch.optim" else ""


def _is_executable(trace: Trace, event: ev.ScheduleStep) -> bool:
    """Whether a schedule is one of learning rates for sure, and counts its own calls."""
    return event.counts != "metric" and (
        event.scheduler not in trace.roles or trace.roles[event.scheduler].known
    )


def _mentions_world(event: ev.Event) -> bool:
    match event:
        case ev.Backward(loss=loss):
            return any(u.world for u in loss.parts)
        case ev.Edit(factor=factor):
            return bool(factor.world)
        case _:
            return isinstance(event, ev.Reduce)


def _models(trace: Trace, owner: str) -> tuple[str, ...]:
    kind, _, model = owner.partition(":")
    if kind == "free":
        return (model,)
    return trace.roles[owner].models if owner in trace.roles else ()


def _is_wrapped(trace: Trace, loss: ev.Loss, owner: str) -> bool:
    """Whether an owner's parameters are those of a model that reduces gradients over ranks by itself."""
    models = _models(trace, owner)
    passes = [f for f in loss.forwards if not models or f.model in models]
    if passes:
        return any(f.wrapper.startswith(("ddp", "fsdp")) for f in passes)
    kinds = {r.id: r.detail for r in trace.roles_of("model")}
    return any(kinds.get(m, "").startswith(("ddp", "fsdp")) for m in models or kinds)


def write(trace: Trace, acts: Iterable[Act], members: Cast) -> list[Op]:
    """The operations of a script, one for each act that has an effect."""
    ops: list[Op] = []
    count: dict[int, int] = {}
    begun = False
    for act in acts:
        op = _op(trace, act, members, count, begun)
        begun = begun or isinstance(act.event, ev.Backward)
        if op:
            conditions = _conditions(act, members)
            conditions += [{"stepped": list(act.if_stepped)}] if act.if_stepped else []
            op["micro"] = act.micro
            if conditions:
                op["if"] = conditions
            ops.append(op)
    return ops


def sharding(trace: Trace, members: Cast, correct: bool) -> list[Op]:
    """How the models are sharded, as the first operation of a script; none where no model is.

    As the loop does it, or `correct`: optimizers after sharding, a scaler that asks all ranks, FSDP's own clip.
    """
    owners: dict[str, str] = {}
    early: list[str] = []
    keeping: list[str] = []
    built = {r.event.role: r.index for r in trace.records if isinstance(r.event, ev.Build)}
    for owner in members["owners"]:
        models = _models(trace, owner)
        for record in trace.records:
            event = record.event
            if not (isinstance(event, ev.Build) and event.kind == "wrapper" and event.role in models):
                continue
            if event.detail.startswith("fsdp"):
                owners[owner] = event.detail[:5]
                keeping += [owner] if event.detail.endswith("use_orig_params") else []
                early += [owner] if built.get(owner, record.index) < record.index else []
    plain = [s for s in members["scalers"] if s in trace.roles and trace.roles[s].detail == "GradScaler"]
    if not owners:
        return []
    op: Op = {"do": "shard", "owners": owners, "keeping": keeping, "micro": 0}
    return [op | ({"early": [], "plain": []} if correct else {"early": early, "plain": plain})]


def corrected(ops: Iterable[Op]) -> list[Op]:
    """The same operations as a reference has them: clips of sharded models' own, recomputes that restore autocast."""
    right = {"clip": {"own": True}, "recompute": {"restores": True}}
    return [op | right.get(op["do"], {}) for op in ops]


def _conditions(act: Act, members: Cast) -> list[Op]:
    """The tests to make at run time; a test of finiteness is made once for a micro-batch, whoever asks first."""
    found: list[Op] = []
    for guard in act.guards:
        if guard.skip:
            test = guard.skip
            found.append({"scale": [test.left, test.op, test.right], "holds": guard.holds})
        elif guard.text in members["tests"]:
            negated = any(word in guard.text for word in NEGATIONS)
            text = guard.text.lower()
            what = "norm" if "norm" in text else "loss" if "loss" in text else "gradients"
            key = f"{guard.text} at {act.micro}"
            found.append({"finite": what, "key": key, "holds": guard.holds is not negated})
    return found


def _op(trace: Trace, act: Act, members: Cast, count: dict[int, int], begun: bool) -> Op | None:
    match act.event:
        case ev.Backward() as event:
            return _backward(trace, event, act, members, count)
        case ev.Unscale(scaler=scaler, optimizer=optimizer):
            return {"do": "unscale", "scaler": scaler, "optimizer": optimizer}
        case ev.Clip() as event:
            return {
                "do": "clip",
                "owners": list(event.owners),
                "style": event.style,
                "whole": event.whole,
                "each": event.per_parameter,
                "raises": event.error_if_nonfinite,
                "empty": event.exhausted is not None,
                "own": event.by == "model",
                "threshold": event.threshold if event.threshold in members["thresholds"] else None,
            }
        case ev.Edit(effect=effect, owners=owners, factor=factor):
            return {"do": "edit", "effect": effect, "owners": list(owners), "factor": _unit(factor)}
        case ev.Reduce(owners=owners):
            return {"do": "reduce", "owners": list(owners)}
        case ev.Read(owners=owners, exhausted=exhausted):
            return {"do": "read", "owners": list(owners), "empty": exhausted is not None}
        case ev.Step(optimizer=optimizer, scaler=scaler, closure=closure, passed=passed):
            how = passed or ("keyword" if closure else "")
            return {"do": "step", "optimizer": optimizer, "scaler": scaler, "closure": how}
        case ev.Differentiate(loss=loss, owners=owners, use=use) if use and owners:
            parts = [_unit(unit) for unit in loss.parts]
            return {"do": "differentiate", "owner": owners[0], "nth": 0, "parts": parts}
        case ev.ResultTest(optimizer=optimizer, asks=asks):
            return {"do": "test-result", "optimizer": optimizer, "asks": asks}
        case ev.Update(scaler=scaler, explicit=explicit):
            return {"do": "update", "scaler": scaler, "explicit": explicit}
        case ev.Internal(scaler=scaler, name=name, written=False) if scaler in members["scalers"]:
            return {"do": "internal", "scaler": scaler, "name": name}
        case ev.ZeroGrad(owners=owners, to_none=to_none):
            return {"do": "zero", "owners": list(owners), "to_none": to_none}
        case ev.ScheduleStep(scheduler=role) if role in members["schedules"]:
            return {"do": "schedule", "scheduler": role}
        case ev.AverageUpdate(average=role):
            return {"do": "average", "average": role}
        case ev.ReadScale(scaler=scaler, reading=reading):
            return {"do": "read-scale", "scaler": scaler, "reading": reading}
        case ev.StateDict(scaler=scaler):
            return {"do": "save-scale", "scaler": scaler}
        case ev.Build(kind="scaler" | "optimizer" as kind, role=role) if begun:
            return {"do": "build", "kind": kind, "role": role}
        case ev.Convert(model=model, dtype=dtype):
            return {"do": "convert", "owners": members["converted"].get(model, []), "dtype": dtype}
        case ev.Recompute(autocast=dtype) if dtype:
            return {"do": "recompute", "dtype": dtype, "restores": False}
        case ev.Deprecated(name=name):
            return {"do": "deprecated", "name": name}
        case _:
            return None


def _unit(unit: ev.Unit) -> Op:
    return {"scale": dict(unit.scale), "window": unit.window, "world": unit.world}


def _backward(trace: Trace, event: ev.Backward, act: Act, members: Cast, count: dict[int, int]) -> Op:
    nth = count.get(act.micro, 0)
    count[act.micro] = nth + 1
    passes: dict[str, Op] = {}
    for owner in event.reaches:
        if owner in members["wrapped"]:
            models = _models(trace, owner)
            found = [f for f in event.loss.forwards if not models or f.model in models]
            sharded = any(f.wrapper.startswith("fsdp") for f in found)  # it reads the switch in the backward
            synced = event.synced if sharded or not found else all(f.synced for f in found)
            passes[owner] = {"synced": synced, "bypassed": bool(found) and all(f.bypassed for f in found)}
    return {
        "do": "backward",
        "nth": nth,
        "reaches": list(event.reaches),
        "parts": [_unit(unit) for unit in event.loss.parts],
        "divisor": act.divisor,
        "items": ITEMS if members["items"] and event.loss.reduction == "sum" else 1,
        "passes": passes,
        "synced": event.synced,
    }
