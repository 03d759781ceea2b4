"""One event as a cell: what it is called, what the gradients carry there, and in which kind of unit that is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ampcheck import events as ev
from ampcheck.events import Site, Unit
from ampcheck.gradients import Buffer
from ampcheck.report.carries import carries
from ampcheck.trace import Record, Trace

__all__ = ["KINDS", "Cell", "Kind", "cell", "drawn", "place_of", "wrapped"]

Kind = Literal["none", "true", "sum", "scaled", "mixed", "off", "other"]

KINDS: dict[Kind, tuple[str, str]] = {
    "true": ("true", "true gradients: 1, or 1/K in a window of K"),
    "scaled": ("× S", "still multiplied by the loss scale S"),
    "sum": ("Σ", "a sum over the window, not divided by K"),
    "mixed": ("mix", "contributions in different units, added up"),
    "off": ("off", "a wrong power: S², 1/S, divided by K twice, or by the number of ranks"),
    "none": ("none", "no gradients there"),
    "other": ("–", "does not touch gradients"),
}
"""What the gradients carry: a short mark, and what it means."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One event of a timeline.

    `text` says what the gradients carry, `unit` the same as a formula, `kind` in a word.  `place` is where a reader
    finds it (None in a correct order, which stands nowhere), `tests` what it depends on, `wrong` the codes of the
    rules that it breaks.
    """

    record: int
    label: str
    text: str
    kind: Kind
    unit: str = ""
    place: Site | None = None
    tests: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def drawn(trace: Trace, records: Iterable[Record]) -> tuple[Record, ...]:
    """The records whose events belong into a picture: what only prepares the loop does not.

    Nor does a scaler that never scales, unscales or steps: it is one by its name only.
    """
    acting = {s for _, event in trace.of(ev.Backward) for unit in event.loss.parts for s, _ in unit.scale}
    acting |= {event.scaler for _, event in trace.of(ev.Unscale)}
    acting |= {event.scaler for _, event in trace.of(ev.Step) if event.scaler}
    return tuple(record for record in records if _is_drawn(record, acting))


def _is_drawn(record: Record, acting: set[str]) -> bool:
    match record.event:
        case ev.Autocast() | ev.EngineCall() | ev.Escape() | ev.Deprecated() | ev.Precision() | ev.Convert():
            return False
        case ev.Update(scaler=scaler) | ev.ReadScale(scaler=scaler):
            return scaler in acting
        case ev.Build():
            return bool(record.iteration)
        case ev.Read(use=""):
            return False
        case _:
            return True


def cell(trace: Trace, record: Record, wrong: tuple[str, ...] = ()) -> Cell:
    """The cell of one record of a trace."""
    buffers = tuple(_buffers(record))
    return Cell(
        record.index,
        _label(trace, record.event),
        _without_role(carries(trace, record), record.event),
        _kind(trace, buffers),
        _unit(buffers),
        place_of(record),
        tuple(f"{g.text}" if g.holds else f"not ({g.text})" for g in record.guards),
        wrong,
    )


COUNT = re.compile(r", (\d+) micro-batches")
PHRASE = re.compile(r"gradients [^;,]*")
BOUND = "\N{NO-BREAK SPACE}"


def wrapped(text: str, width: int, most: int = 99) -> list[str]:
    """The text of a cell in lines: the number of micro-batches in brackets, what gradients carry in one piece.

    ``steps on gradients / K, 3 micro-batches`` becomes ``steps on`` and ``gradients / K (3)``; the columns show what
    the number counts.
    """
    short = COUNT.sub(r" (\1)", text)
    bound = PHRASE.sub(lambda phrase: phrase[0].strip().replace(" ", BOUND), short)
    whole = max(map(len, bound.split(" ")), default=0) <= width
    lines = textwrap.wrap(bound if whole else short, width, max_lines=most, placeholder=" …")
    return [line.replace(BOUND, " ") for line in lines]


def _without_role(text: str, event: ev.Event) -> str:
    """What the gradients carry, without the role that the label names already."""
    for name in ("optimizer", "scaler", "scheduler"):
        text = text.removesuffix(f" ({getattr(event, name, '')})")
    return text


def place_of(record: Record) -> Site:
    """Where a reader finds an event: a library's own line is that of the call into it."""
    if not record.event.site.path.startswith("<"):
        return record.event.site
    own = [call for call in record.calls if not call.path.startswith("<")]
    return own[-1] if own else record.event.site


# --- what the gradients carry ---


def _buffers(record: Record) -> Iterator[Buffer]:
    """The gradients that an event leaves or, where it only uses them, meets."""
    match record.event:
        case ev.Backward(reaches=owners):
            # What a step has used already may be wiped as it is: it is not what this backward is for.
            fresh = [owner for owner in owners if not record.before.buffer(owner).stepped]
            yield from (record.after.buffer(owner) for owner in fresh or owners)
        case ev.Edit(owners=owners) | ev.ZeroGrad(owners=owners):
            yield from (record.after.buffer(owner) for owner in owners)
        case ev.Clip(owners=owners) | ev.Read(owners=owners) | ev.Reduce(owners=owners):
            yield from (record.before.buffer(owner) for owner in owners)
        case ev.Unscale(optimizer=optimizer) | ev.Step(optimizer=optimizer):
            yield record.after.buffer(optimizer)
        case _:
            pass


def _kind(trace: Trace, buffers: tuple[Buffer, ...]) -> Kind:
    if not buffers:
        return "other"
    held = [buffer for buffer in buffers if not buffer.is_empty]
    if not held:
        return "none"
    if any(len({(u.scale, u.window, u.world) for u in buffer.units}) > 1 for buffer in held):
        return "mixed"
    units = [next(iter(buffer.units)) for buffer in held]
    if any(unit.scale not in ((), ((_scaler(unit), 1),)) or unit.window < -1 or unit.world for unit in units):
        return "off"
    if any(unit.is_scaled for unit in units):
        return "scaled"
    return "sum" if any(_is_sum(trace, buffer) for buffer in held) else "true"


def _scaler(unit: Unit) -> str:
    return unit.scale[0][0] if unit.scale else ""


def _is_sum(trace: Trace, buffer: Buffer) -> bool:
    """Whether the micro-batches of a declared window were added up without a division that the code shows."""
    declared = trace.window is not None and trace.window.length > 1
    return declared and len(buffer.micros) > 1 and all(u.window >= 0 and not u.other for u in buffer.units)


def _unit(buffers: tuple[Buffer, ...]) -> str:
    units = dict.fromkeys(str(c.unit) for buffer in buffers for c in buffer.contributions)
    return " and ".join(units)


# --- what an event is called ---


def _label(trace: Trace, event: ev.Event) -> str:
    match event:
        case ev.Backward(found=True):
            return "backward, by the caller"
        case ev.Backward(synced=False):
            return "backward, no_sync"
        case ev.Backward():
            return "backward"
        case ev.Unscale(optimizer=optimizer):
            return f"unscale_{_of(trace, 'optimizer', optimizer)}"
        case ev.Clip(style=style, owners=owners, by=by):
            name = "clip by value" if style == "value" else "clip by norm"
            hand = {"hand": ", by hand", "hook": ", in a hook", "model": ", FSDP's own"}.get(by, "")
            return name + hand + (_of(trace, "optimizer", owners[0]) if len(owners) == 1 else "")
        case ev.Edit(effect=effect):
            return {"multiply": "multiply gradients", "hide": "hide non-finite"}.get(effect, "edit gradients")
        case ev.Read(use=use):
            return {"tested": "test a norm", "shown": "log a norm"}.get(use, "take a norm")
        case ev.Reduce():
            return "reduce over ranks"
        case ev.Step(optimizer=optimizer, scaler=None):
            return f"optimizer.step{_of(trace, 'optimizer', optimizer)}"
        case ev.Step(optimizer=optimizer):
            return f"scaler.step{_of(trace, 'optimizer', optimizer)}"
        case ev.Update(scaler=scaler):
            return f"scaler.update{_of(trace, 'scaler', scaler)}"
        case ev.ZeroGrad(owners=owners):
            return f"zero_grad{_of(trace, 'optimizer', owners[0]) if len(owners) == 1 else ''}"
        case ev.ScheduleStep(scheduler=scheduler):
            return f"scheduler.step{_of(trace, 'scheduler', scheduler)}"
        case ev.AverageUpdate():
            return "update the average"
        case ev.ReadScale():
            return "get_scale"
        case ev.Jump(kind=kind):
            return kind
        case ev.Differentiate():
            return "autograd.grad"
        case ev.ResultTest():
            return "test step's result"
        case ev.StateDict() | ev.Checkpoint():
            return "save a checkpoint"
        case ev.Build(kind=kind):
            return f"build a {kind}"
        case ev.Internal(name=name):
            return name
        case _:
            return type(event).__name__.lower()


def _of(trace: Trace, kind: str, role: str) -> str:
    """The role's name where there are several of its kind."""
    if len(trace.roles_of(kind)) < 2 or role not in trace.roles:
        return ""
    return f" {trace.roles[role].text.removeprefix('self.')}"
