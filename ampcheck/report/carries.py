"""What the gradients carry at each line of a witness, in a few words: ``gradients × S``, ``clipped at 1.0 / S``."""

from __future__ import annotations

from ampcheck import events as ev
from ampcheck.events import Unit
from ampcheck.gradients import UNSCALED, Buffer
from ampcheck.trace import Record, Trace

__all__ = ["carries"]


def carries(trace: Trace, record: Record) -> str:
    """What one event does to the gradients or finds in them; empty when there is nothing to say."""
    if record.refused:
        return f"torch raises: {record.refused.rstrip('.')}"
    match record.event:
        case ev.Backward(reaches=owners, synced=synced):
            return _each(trace, record, owners, after=True) + ("" if synced else ", not synchronised")
        case ev.Clip(exhausted=ev.Site()):
            return "clips nothing: the iterator is exhausted"
        case ev.Clip():
            return _clip(record, record.event)
        case ev.Unscale(optimizer=optimizer):
            return _unscaled(record, optimizer)
        case ev.Step():
            return _step(trace, record, record.event)
        case ev.Edit(effect=effect, owners=owners):
            return f"{_EDITS[effect]}: {_each(trace, record, owners, after=True)}"
        case ev.Read(exhausted=ev.Site()):
            return "reads nothing: the iterator is exhausted"
        case ev.Read(owners=owners):
            return f"reads {_each(trace, record, owners)}"
        case ev.Reduce(owners=owners):
            return f"reduces {_each(trace, record, owners)}"
        case ev.ZeroGrad(owners=owners):
            return f"zeroes {_each(trace, record, owners)}"
        case ev.Update(scaler=scaler):
            return "updates the scale" + _named(trace, "scaler", scaler)
        case ev.ReadScale():
            return "reads the scale"
        case ev.Jump(kind=kind):
            return f"{kind}: the rest of the iteration does not run"
        case ev.ScheduleStep(scheduler=scheduler):
            return "advances the schedule" + _named(trace, "scheduler", scheduler)
        case ev.AverageUpdate():
            return "takes the weights into the average"
        case ev.Autocast(dtype=dtype):
            return f"autocast to {dtype}" if dtype else "autocast"
        case ev.Convert(model=model, dtype=dtype):
            return f"{model} becomes {dtype}"
        case ev.Recompute(function=function):
            return f"recomputes the forward of {function}, without autocast"
        case ev.Build(role=role, kind="wrapper", detail=detail):
            return f"wraps {role} in {detail.split()[0].rstrip('?').upper() if detail else 'a wrapper'}"
        case ev.Build(role=role, kind=kind):
            return f"builds the {kind} {role}"
        case ev.StateDict(scaler=scaler):
            return "takes the state" + _named(trace, "scaler", scaler)
        case ev.Checkpoint(optimizers=optimizers):
            return f"the state of {' and '.join(optimizers)}, of no scaler"
        case ev.Precision(owner=owner):
            return f"{owner} says"
        case ev.Deprecated(instead=instead):
            return f"now {instead}"
        case ev.Differentiate(loss=loss):
            return f"derivatives × {loss.parts[0]}"
        case ev.ResultTest():
            return "tests what the step returned: always None"
        case ev.Internal(written=written):
            return "writes what torch may rename" if written else "reads what torch may rename"
        case ev.Escape(into=into):
            return f"handed to {into}, which is not visible"
        case _:
            return ""


_EDITS = {
    "multiply": "multiplied",
    "shift": "shifted",
    "nonlinear": "reshaped",
    "hide": "non-finite values hidden",
}


def gradients(buffer: Buffer) -> str:
    """A buffer in words: ``gradients × S / K``, ``gradients, mixed: S and 1``, ``no gradients``."""
    if buffer.is_empty:
        return "no gradients"
    units = dict.fromkeys(str(c.unit) for c in buffer.contributions)
    if len(units) > 1:
        said = f"gradients, mixed: {' and '.join(units)}"
    else:
        (unit,) = units
        said = "gradients" + (f" {unit[1:].strip()}" if unit.startswith("1") else f" × {unit}").rstrip()
    count = len(buffer.micros)
    return said if count < 2 else f"{said}, {count} micro-batches"


def _each(trace: Trace, record: Record, owners: tuple[str, ...], *, after: bool = False) -> str:
    """The buffers of several owners, told apart only where they differ."""
    state = record.after if after else record.before
    said = {owner: gradients(state.buffer(owner)) for owner in owners}
    if not said:
        return "gradients"
    distinct = dict.fromkeys(said.values())
    if len(distinct) == 1:
        return next(iter(distinct))
    return "; ".join(f"{owner.removeprefix('free:')}: {text}" for owner, text in said.items())


def _clip(record: Record, clip: ev.Clip) -> str:
    buffers = [record.before.buffer(owner) for owner in clip.owners]
    held = [buffer for buffer in buffers if not buffer.is_empty]
    if not held:
        return "clips no gradients"
    said = "clipped by value" if clip.style == "value" else "clipped"
    if clip.per_parameter:
        said += " one by one"
    bound = "the threshold" if clip.threshold is None else str(clip.threshold)
    # A window is meant to be in 1/K: only the loss scale changes what the threshold means.
    scales = dict.fromkeys(Unit(c.unit.scale) for buffer in held for c in buffer.contributions)
    in_truth = [bound + (f" / {scale}" if scale.is_scaled else "") for scale in scales]
    return f"{said} at {' and '.join(in_truth)}"


def _unscaled(record: Record, optimizer: str) -> str:
    before, after = record.before.buffer(optimizer), record.after.buffer(optimizer)
    if before.is_empty:
        return "unscales no gradients"
    if not before.is_scaled:
        return f"divided by S once too often: {gradients(after)}"
    return "unscaled here" + (", after the clip" if "clipped" in before.marks else "")


def _step(trace: Trace, record: Record, step: ev.Step) -> str:
    before, after = record.before.buffer(step.optimizer), record.after.buffer(step.optimizer)
    which = _named(trace, "optimizer", step.optimizer)
    if before.is_empty:
        return f"steps on no gradients{which}"
    again = "steps again on" if before.stepped else "steps on"
    unscales = step.scaler is not None and record.before.phase(step.scaler, step.optimizer) != UNSCALED
    if unscales and before.is_scaled:
        left = f", then {again} {gradients(after)}" if after.is_scaled or before.stepped else ""
        return _unscaled(record, step.optimizer) + left + which
    if unscales:
        return f"divides by S and {again} {gradients(after)}{which}"
    return f"{again} {gradients(before)}{which}"


def _named(trace: Trace, kind: str, role: str) -> str:
    """The role in brackets where there are several of its kind."""
    return f" ({role})" if len(trace.roles_of(kind)) > 1 else ""
