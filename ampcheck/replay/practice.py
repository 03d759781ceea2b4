"""What a user's loop does, read from its trace: the part of a reference that is the loop's own affair.

The trace may be wrong in any way, so each fact is read from where a fault is least likely to bend it: a clip belongs
to whoever has fresh gradients when it runs and, if nobody has, to the optimizer that steps next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ampcheck import events as ev
from ampcheck.gradients import Buffer
from ampcheck.protocol import Extra, Practice
from ampcheck.trace import Guard, Record, Trace

__all__ = ["Loop", "read_loop"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One iteration of the innermost loop that trains, or leaves early: its records lie from `start` to `stop`.

    `trains`: there is a backward in it.
    """

    start: int
    stop: int
    trains: bool


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
    gaps = {o for o in optimizers if _one_backward_a_window(trace, o)}
    windows = {o: 1 if o in gaps or o not in _declaring(trace, optimizers) else length for o in optimizers}
    scalers = {o: s for o in optimizers if (s := _scaler(everything, o))}
    free = tuple(dict.fromkeys(o for b in _backwards(records) for o in b[1].reaches if o not in optimizers))
    before, after = _extras(trace, optimizers, free, bool(scalers))
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
            r.index for r, b in _backwards(everything) if not trace.complete or _is_undivided(b, gaps)
        ),
        late=any(isinstance(r.event, ev.Edit) and r.event.factor.window < 0 for r in everything)
        and not any(u.window for _, b in _backwards(everything) for u in b.loss.parts),
        world=any(isinstance(r.event, ev.Reduce) for r in everything),
        free=free,
    )
    casts = {r.event.dtype for r in everything if isinstance(r.event, ev.Autocast)}
    return Loop(
        tuple(records),
        practice,
        optimizers,
        length,
        windows,
        _epochs(records),
        bfloat16=casts == {"bfloat16"},
        complete=trace.complete,
    )


def _backwards(records: Iterable[Record]) -> list[tuple[Record, ev.Backward]]:
    return [(r, r.event) for r in records if isinstance(r.event, ev.Backward)]


def _optimizers(trace: Trace, records: Sequence[Record]) -> tuple[str, ...]:
    """Those that step, in order of their steps, then those that never do."""
    stepping = [e.optimizer for _, e in trace.of(ev.Step)]
    named = [r.id for r in trace.roles_of("optimizer")]
    reached = [o for _, b in _backwards(records) for o in b.reaches if not o.startswith("free:")]
    return tuple(dict.fromkeys([*stepping, *(o for o in reached if o in named)]))


# --- windows ---


def _declaring(trace: Trace, optimizers: tuple[str, ...]) -> frozenset[str]:
    """The optimizers whose own events show a window; all of them where none does."""
    if not trace.window:
        return frozenset()
    shown = set()
    for record in trace.records:
        match record.event:
            case ev.Backward(loss=loss, reaches=reaches) if any(u.window for u in loss.parts):
                shown.update(set(reaches) - set(record.event.assumed))
            case ev.Edit(owners=owners, factor=factor) if factor.window:
                shown.update(owners)
            case ev.Step(optimizer=optimizer) | ev.Unscale(optimizer=optimizer) if _at_boundary(record):
                shown.add(optimizer)
            case ev.ZeroGrad(owners=(owner,)) | ev.Clip(owners=(owner,)) if _at_boundary(record):
                shown.add(owner)
            case _:
                pass
    return frozenset(shown & set(optimizers)) or frozenset(optimizers)


def _at_boundary(record: Record) -> bool:
    return any(g.boundary for g in record.guards)


def _one_backward_a_window(trace: Trace, optimizer: str) -> bool:
    """Whether the loss is accumulated instead of the gradients: one backward for each K micro-batches."""
    if not trace.window or trace.window.length < 2:
        return False
    reaching = [
        r for r, b in _backwards(trace.records) if optimizer in b.reaches and optimizer not in b.assumed
    ]
    if not reaching:
        return False
    return all(any(g.boundary and g.holds for g in r.guards) for r in reaching)


def _is_undivided(backward: ev.Backward, gaps: set[str]) -> bool:
    """Whether K does not settle the loss's normalisation: another divisor, a sum, a loss summed over the window."""
    return (
        any(u.other for u in backward.loss.parts)
        or backward.loss.reduction == "sum"
        or any(o in gaps for o in backward.reaches)
    )


def _epochs(records: Sequence[Record]) -> tuple[tuple[Slot, ...], ...]:
    """The iterations of each run through the training loop, those that were left early included.

    Several backwards in a loop of their own are one iteration where the boundary test stands outside that loop; without
    a boundary test, the same backward again is the next one.
    """
    gated = (len(r.iteration) for r in records if isinstance(r.event, ev.Step) and _at_boundary(r))
    depth = next(gated, None)
    begun: list[Record] = []
    trained: set[int] = set()
    places: set[ev.Site] = set()
    for record in records:
        if not isinstance(record.event, ev.Backward | ev.Jump):
            continue
        again = depth is None and record.event.site in places
        if not begun or again or begun[-1].iteration[:depth] != record.iteration[:depth]:
            begun.append(record)
            places.clear()
        if isinstance(record.event, ev.Backward):
            places.add(record.event.site)
            trained.add(begun[-1].index)
    epochs: dict[tuple[int, ...], list[Slot]] = {}
    for first, following in pairwise([*begun, None]):
        assert first is not None
        stop = following.index if following else records[-1].index + 1
        iteration = first.iteration[:depth]
        epochs.setdefault(iteration[:-1], []).append(Slot(first.index, stop, first.index in trained))
    return tuple(map(tuple, epochs.values()))


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


# --- clips, reads and edits ---


def _extras(
    trace: Trace, optimizers: tuple[str, ...], free: tuple[str, ...], scaled: bool
) -> tuple[tuple[Extra, ...], tuple[Extra, ...]]:
    """The clips, reads and edits, once each, with the owners they are meant for: before the step, and after it."""
    places: dict[
        ev.Event, list[Record]
    ] = {}  # a place in a helper may serve several owners: then it counts for each
    for record in trace.records:
        if isinstance(record.event, ev.Clip | ev.Edit | ev.Read | ev.Reduce):
            places.setdefault(record.event, []).append(record)
    clipped = {o for rs in places.values() if isinstance(rs[0].event, ev.Clip) for o in _fresh_owners(rs)}
    before: list[Extra] = []
    after: list[Extra] = []
    for event, records in places.items():
        assert isinstance(event, ev.Clip | ev.Edit | ev.Read | ev.Reduce)
        if isinstance(event, ev.Edit) and event.effect == "multiply":
            continue  # a factor of S, K or W is the protocol's affair; a mask changes no unit
        owners = tuple(o for o in event.owners if not (scaled and o in free))
        fresh = _fresh_owners(records)
        if isinstance(event, ev.Clip):
            owners = owners if fresh else _meant(trace, records, clipped, optimizers)
            event = replace(event, owners=owners, per_parameter=False, error_if_nonfinite=False)
            if event not in before:
                before.append(event)
        elif fresh:
            before.append(replace(event, owners=owners))
        elif isinstance(event, ev.Read):
            after.append(replace(event, owners=owners))
    return tuple(before), tuple(after)


def _is_fresh(buffer: Buffer) -> bool:
    return not buffer.is_empty and not buffer.stepped


def _fresh_owners(records: Sequence[Record]) -> set[str]:
    """The owners with gradients that no step has used yet, when the event at this place runs."""
    return {
        o
        for r in records
        for o in r.event.owners  # type: ignore[attr-defined]
        if _is_fresh(r.before.buffer(o))
    }


def _meant(
    trace: Trace, records: Sequence[Record], clipped: set[str], optimizers: tuple[str, ...]
) -> tuple[str, ...]:
    """Whom a clip was meant for that finds no fresh gradients at all."""
    first = records[0]
    assert isinstance(first.event, ev.Clip)
    named = tuple(o for o in first.event.owners if o in optimizers)
    behind = named and all(not first.before.buffer(o).is_empty for o in named)
    if behind and clipped.isdisjoint(named):
        return named
    following = (
        r.event.optimizer for r in trace.records if r.index > first.index and isinstance(r.event, ev.Step)
    )
    next_one = next(following, None)
    if next_one is None or (next_one in clipped and named and clipped.isdisjoint(named)):
        return named or optimizers[:1]
    return (next_one,)


# --- schedules, averages and what stays in its place ---


def _own_tests(records: Sequence[Record], optimizer: str) -> tuple[Guard, ...]:
    """The tests of finiteness by which a loop without a scaler skips a step."""
    for record in records:
        if isinstance(record.event, ev.Step) and record.event.optimizer == optimizer:
            return tuple(g for g in record.guards if g.finite)
    return ()


def _is_own_cadence(trace: Trace, records: Sequence[Record]) -> bool:
    """Whether events come once an epoch or less, or under a test of the user's own."""
    epochs = len({r.epoch for r in trace.records}) or 1
    return len(records) <= epochs or any(
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
    """Records that a correct loop has in the same place: explicit updates, schedules of epochs, idle steps."""
    schedules, averages = _places(trace, ev.ScheduleStep), _places(trace, ev.AverageUpdate)
    first_reached = {o: r.index for r, b in reversed(_backwards(records)) for o in b.reaches}
    first_step = next((r.index for r, _ in trace.of(ev.Step)), 0)
    for record in records:
        match record.event:
            case ev.Update(explicit=True):
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
