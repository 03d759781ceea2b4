"""What a user's loop does, read from its trace: the part of a reference that is the loop's own affair.

The trace may be wrong in any way, so each fact is read from where a fault is least likely to bend it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ampcheck import events as ev
from ampcheck.protocol import Practice
from ampcheck.replay.extras import extras
from ampcheck.replay.iterations import (
    Slot,
    accumulates_losses,
    backwards,
    declaring,
    epochs_of,
    is_undivided,
)
from ampcheck.trace import Guard, Record, Trace

__all__ = ["Loop", "read_loop"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop's practice and what its windows are divided by.

    `window` is K; `windows` gives the length of each optimizer's own window, 1 where it declares none.
    """

    records: tuple[Record, ...]
    practice: Practice
    optimizers: tuple[str, ...]
    window: int
    windows: dict[str, int]
    epochs: tuple[tuple[Slot, ...], ...]
    bfloat16: bool
    complete: bool


def read_loop(trace: Trace, records: Sequence[Record]) -> Loop:
    """The loop behind a trace, of which only `records` will be executed."""
    everything = trace.records
    optimizers = _optimizers(trace, records)
    length = trace.window.length if trace.window and trace.complete else 1
    gaps = {o for o in optimizers if accumulates_losses(trace, o)}
    windows = {o: 1 if o in gaps or o not in declaring(trace, optimizers) else length for o in optimizers}
    scalers = {o: s for o in optimizers if (s := _scaler(everything, o))}
    free = tuple(dict.fromkeys(o for b in backwards(records) for o in b[1].reaches if o not in optimizers))
    before, after = extras(trace, optimizers, free, bool(scalers))
    practice = Practice(
        scalers=scalers,
        before=before,
        after=after,
        schedules=_schedules(trace, optimizers),
        averages=_averages(trace, optimizers),
        tests={o: _own_tests(everything, o) for o in optimizers if o not in scalers},
        guarded=frozenset(
            r.event.average
            for r in everything
            if isinstance(r.event, ev.AverageUpdate) and any(g.skip for g in r.guards)
        ),
        kept=frozenset(_kept(trace, records, optimizers)),
        undivided=frozenset(
            r.index for r, b in backwards(everything) if not trace.complete or is_undivided(b, gaps)
        ),
        late=any(isinstance(r.event, ev.Edit) and r.event.factor.window < 0 for r in everything)
        and not any(u.window for _, b in backwards(everything) for u in b.loss.parts),
        world=any(isinstance(r.event, ev.Reduce) for r in everything),
        free=free,
        saved=frozenset(e.scaler for _, e in trace.of(ev.StateDict)),
    )
    casts = {r.event.dtype for r in everything if isinstance(r.event, ev.Autocast)}
    return Loop(
        tuple(records),
        practice,
        optimizers,
        length,
        windows,
        epochs_of(records),
        bfloat16=casts == {"bfloat16"},
        complete=trace.complete,
    )


def _optimizers(trace: Trace, records: Sequence[Record]) -> tuple[str, ...]:
    """Those that step, in order of their steps, then those that never do."""
    stepping = [e.optimizer for _, e in trace.of(ev.Step)]
    named = [r.id for r in trace.roles_of("optimizer")]
    reached = [o for _, b in backwards(records) for o in b.reaches if not o.startswith("free:")]
    return tuple(dict.fromkeys([*stepping, *(o for o in reached if o in named)]))


# --- scalers ---


def _scaler(records: Sequence[Record], optimizer: str) -> str | None:
    """The scaler of an optimizer: one that scaled its loss, best the one that also steps it."""
    losses: list[str] = []
    calls: list[str] = []
    for record in records:
        match record.event:
            case ev.Backward(loss=loss, reaches=reaches) if optimizer in reaches:
                losses += [s for u in loss.parts for s, exponent in u.scale if exponent > 0]
            case ev.Step(optimizer=o, scaler=str(s)) | ev.Unscale(optimizer=o, scaler=s) if o == optimizer:
                calls.append(s)
            case _:
                pass
    both = [s for s in calls if s in losses]
    candidates = both or losses or calls
    return max(dict.fromkeys(candidates), key=candidates.count, default=None)


# --- schedules, averages and what stays in its place ---


def _own_tests(records: Sequence[Record], optimizer: str) -> tuple[Guard, ...]:
    """The tests of finiteness by which a loop without a scaler skips a step."""
    for record in records:
        if isinstance(record.event, ev.Step) and record.event.optimizer == optimizer:
            return tuple(g for g in record.guards if g.finite)
    return ()


def _is_own_cadence(trace: Trace, records: Sequence[Record]) -> bool:
    """Whether events come once an epoch or less, unlike steps, or under a test of the user's own."""
    epochs = len({r.epoch for r in trace.records}) or 1
    steps = Counter(e.optimizer for _, e in trace.of(ev.Step))
    # Where the outermost loop is one over updates, an epoch is an update.
    seldom = len(records) <= epochs < max(steps.values(), default=epochs + 1)
    return seldom or any(
        g.varying and not (g.boundary or g.skip or g.finite) for r in records for g in r.guards
    )


def _places(trace: Trace, kind: type[ev.ScheduleStep] | type[ev.AverageUpdate]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in trace.records:
        match record.event:
            case ev.ScheduleStep(scheduler=role) | ev.AverageUpdate(average=role) if isinstance(
                record.event, kind
            ):
                found.setdefault(role, []).append(record)
            case _:
                pass
    return found


def _counts_updates(trace: Trace, records: Sequence[Record]) -> bool:
    counts = {r.event.counts for r in records if isinstance(r.event, ev.ScheduleStep)}
    return not counts & {"epochs", "metric"} and not _is_own_cadence(trace, records)


def _schedules(trace: Trace, optimizers: tuple[str, ...]) -> tuple[ev.ScheduleStep, ...]:
    schedules = []
    for records in _places(trace, ev.ScheduleStep).values():
        event = records[0].event
        if isinstance(event, ev.ScheduleStep) and _counts_updates(trace, records):
            named = tuple(o for o in event.optimizers if o in optimizers) or optimizers[:1]
            schedules.append(replace(event, optimizers=named))
    return tuple(s for s in schedules if s.optimizers)


def _averages(trace: Trace, optimizers: tuple[str, ...]) -> tuple[tuple[ev.AverageUpdate, str], ...]:
    averages = []
    for records in _places(trace, ev.AverageUpdate).values():
        event, first = records[0].event, records[0].index
        if isinstance(event, ev.AverageUpdate) and not _is_own_cadence(trace, records):
            steps = [
                r.event.optimizer for r in trace.records if isinstance(r.event, ev.Step) and r.index < first
            ]
            if optimizers:
                averages.append((event, steps[-1] if steps else optimizers[0]))
    return tuple(averages)


def _kept(trace: Trace, records: Sequence[Record], optimizers: tuple[str, ...]) -> Iterable[int]:
    """Records that a correct loop has in the same place: explicit updates, epochs' schedules, idle steps, restarts."""
    schedules, averages = _places(trace, ev.ScheduleStep), _places(trace, ev.AverageUpdate)
    # Where optimizers are built anew, a new training begins, and a new scaler belongs to it.
    restarts = {r.iteration for r in records if isinstance(r.event, ev.Build) and r.event.kind == "optimizer"}
    first_reached = {o: r.index for r, b in reversed(backwards(records)) for o in b.reaches}
    first_step = next((r.index for r, _ in trace.of(ev.Step)), 0)
    for record in records:
        match record.event:
            case ev.Update(explicit=True) | ev.Recompute():
                yield record.index
            case ev.ResultTest() | ev.Differentiate():
                yield record.index
            case ev.Build(kind="scaler" | "optimizer") if record.iteration in restarts:
                yield record.index
            case ev.Step(optimizer=optimizer, scaler=None):
                empty = record.before.buffer(optimizer).is_empty and not trace.complete
                if empty or record.index < first_reached.get(optimizer, len(trace.records)):
                    yield record.index
            case ev.ScheduleStep(scheduler=role) if not _counts_updates(trace, schedules[role]):
                if record.index > first_step:  # before it, a schedule warns
                    yield record.index
            case ev.AverageUpdate(average=role) if _is_own_cadence(trace, averages[role]) or not optimizers:
                yield record.index
            case _:
                pass
