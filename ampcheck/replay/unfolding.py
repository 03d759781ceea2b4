"""Both arms of every test that the replay makes itself.

A run decides ``if scaler.get_scale() >= before:`` or ``if torch.isfinite(norm):`` as it pleases, for each iteration
anew, and only the arm chosen is in its trace.  The replay has the real scale and the real gradients, so it makes the
test; for that both arms must be there, with their guards, in every iteration.  An arm that one iteration has taken
is therefore copied into the others.  Where a test of finiteness came out the same way throughout, its other arm is
unknown: then it is not made, and the run stands as it is, unless all that depends on it can simply be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck import events as ev
from ampcheck.trace import Guard, Record, Trace

__all__ = ["NEGATIONS", "Unfolded", "unfold"]

NEGATIONS = ("isnan", "isinf", "is_nan", "is_inf")

Iteration = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A trace for execution.

    `user` has both arms of every test; `normal` only the arms that are taken when nothing overflows, from which the
    reference is read.  `places` gives the new index of each record of the original trace, `tests` are the texts of
    the tests of finiteness that can be made.
    """

    user: Trace
    normal: Trace
    places: Mapping[int, int]
    tests: frozenset[str]


def unfold(trace: Trace) -> Unfolded:
    """A trace with both arms of the tests that can be made at run time."""
    records = _without_guesses(tuple(_distinct_steps(trace)))
    tests = _testable(records)
    added = _missing(records, tests)
    both: list[Record] = []
    places: dict[int, int] = {}
    for record in records:
        both += added.get((record.index, False), ())
        places[record.index] = len(both)
        both.append(record)
        both += added.get((record.index, True), ())
    both = [replace(r, index=index) for index, r in enumerate(both)]
    normal = tuple(r for r in both if not any(g.text in tests and not _is_finite(g) for g in r.guards))
    return Unfolded(replace(trace, records=tuple(both)), replace(trace, records=normal), places, tests)


def _is_finite(guard: Guard) -> bool:
    """Whether a guard holds where everything is finite."""
    return guard.holds is not any(word in guard.text for word in NEGATIONS)


def _distinct_steps(trace: Trace) -> Iterator[Record]:
    """The records without repeated steps of a role that stands for several optimizers, built in one place.

    The last one of an iteration stays, so that whatever precedes any of them precedes it.  Parameters of models that
    seem to be in no optimizer are taken to be theirs.
    """
    several = _built_together(trace)
    free = tuple(
        dict.fromkeys(o for _, e in trace.of(ev.Backward) for o in e.reaches if o.startswith("free:"))
    )
    steps = ((r, e.optimizer) for r, e in trace.of(ev.Step) if e.optimizer in several)
    last = {(optimizer, r.iteration, r.micro): r.index for r, optimizer in steps}
    for record in trace.records:
        event = record.event
        match event:
            case ev.Step(optimizer=role) if role in several:
                if last[role, record.iteration, record.micro] != record.index:
                    continue
            case ev.ZeroGrad(owners=owners) if not several.isdisjoint(owners):
                record = replace(record, event=replace(event, owners=tuple(dict.fromkeys((*owners, *free)))))
            case _:
                pass
        yield record


def _built_together(trace: Trace) -> set[str]:
    """The roles that stand for several optimizers: built again before a step of the first, so that it is no restart."""
    several: set[str] = set()
    waiting: set[str] = set()
    for record in trace.records:
        match record.event:
            case ev.Build(kind="optimizer", role=role) if not record.iteration:
                several |= waiting & {role}
                waiting.add(role)
            case ev.Step(optimizer=role):
                waiting.discard(role)
            case _:
                pass
    return several


def _without_guesses(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Without gradients that raw optimizers are only assumed to get, beside others that do: theirs are made by hand."""
    sure: set[str] = set()
    guessed: set[str] = set()
    for record in records:
        if isinstance(record.event, ev.Backward):
            known = set(record.event.reaches) - set(record.event.assumed)
            sure |= known
            guessed |= set(record.event.assumed) if known else set()
        elif isinstance(record.event, ev.Step) and record.event.scaler is not None:
            sure.add(record.event.optimizer)
    dropped = guessed - sure
    return tuple(
        replace(r, event=replace(r.event, reaches=tuple(o for o in r.event.reaches if o not in dropped)))
        if isinstance(r.event, ev.Backward) and not dropped.isdisjoint(r.event.assumed)
        else r
        for r in records
    )


def _testable(records: Sequence[Record]) -> frozenset[str]:
    """The tests of finiteness that can be made: not where a backward depends on them, or where an arm is unknown."""
    guarded: dict[str, list[tuple[bool, ev.Event]]] = {}
    for record in records:
        for guard in record.guards:
            if guard.finite:
                guarded.setdefault(guard.text, []).append((guard.holds, record.event))
    return frozenset(
        text
        for text, arms in guarded.items()
        if (len({holds for holds, _ in arms}) == 2 and not any(isinstance(e, ev.Backward) for _, e in arms))
        or all(_stands_alone(event) for _, event in arms)
    )


def _stands_alone(event: ev.Event) -> bool:
    """Whether leaving an event out needs nothing in its place: a raw step, a schedule, an average."""
    raw = isinstance(event, ev.Step) and event.scaler is None
    return raw or isinstance(event, ev.ScheduleStep | ev.AverageUpdate)


def _missing(records: Sequence[Record], tests: frozenset[str]) -> dict[tuple[int, bool], list[Record]]:
    """The guarded records that an iteration lacks, by the record of it that they come before or (true) after."""
    readings = {r.event.reading: r.event.site for r in records if isinstance(r.event, ev.ReadScale)}
    arms: dict[tuple[ev.Event, tuple[tuple[str, bool], ...]], Record] = {}
    for record in records:
        sides = _sides(record, tests)
        if sides and not isinstance(record.event, ev.Jump):
            arms.setdefault((record.event, sides), record)
    present = {(r.iteration, r.event, _sides(r, tests)) for r in records}
    inside: dict[Iteration, list[Record]] = {}
    for record in records:
        inside.setdefault(record.iteration, []).append(record)
    found: dict[tuple[int, bool], list[Record]] = {}
    for iteration, here in inside.items():
        numbers = {r.event.site: r.event.reading for r in here if isinstance(r.event, ev.ReadScale)}
        for (event, sides), record in arms.items():
            if (iteration, event, sides) in present:
                continue
            place = _place(here, inside[record.iteration], record, tests, readings, numbers)
            if place is not None:
                at, after = place
                guards = tuple(_renumbered(g, readings, numbers) for g in record.guards)
                copy = replace(at, event=event, guards=guards, before=record.before, after=record.after)
                found.setdefault((at.index, after), []).append(copy)
    return found


def _sides(record: Record, tests: frozenset[str]) -> tuple[tuple[str, bool], ...]:
    """The tests made at run time that a record depends on, and how they came out."""
    return tuple((g.text, g.holds) for g in record.guards if g.skip or g.text in tests)


def _place(
    here: Sequence[Record],
    there: Sequence[Record],
    record: Record,
    tests: frozenset[str],
    readings: Mapping[int, ev.Site],
    numbers: Mapping[ev.Site, int],
) -> tuple[Record, bool] | None:
    """Where the iteration `here` makes the tests that a record of the iteration `there` depends on.

    Before its first record of the other arm; after the last reading of the scale; else after the record that precedes
    the tests `there`.  None where it does not make them.
    """
    texts = {g.text for g in record.guards if g.text in tests}
    others = [r for r in here if any(g.text in texts for g in r.guards)]
    if others:
        return others[0], False
    if texts:
        before = [r for r in there if r.index < record.index and not any(g.text in texts for g in r.guards)]
        same = [r for r in here if before and r.event.site == before[-1].event.site]
        passed = {(g.text, g.holds) for r in here for g in r.guards}
        gated = all((g.text, g.holds) in passed for g in record.guards if g.boundary)
        return (same[-1], True) if same and gated else None
    of_scale = [g.skip for g in record.guards if g.skip]
    needed = {readings.get(n) for t in of_scale for n in (t.left, t.right)}
    if needed <= set(numbers):
        return [r for r in here if isinstance(r.event, ev.ReadScale)][-1], True
    return None


def _renumbered(guard: Guard, readings: Mapping[int, ev.Site], numbers: Mapping[ev.Site, int]) -> Guard:
    """A test of the scale as another iteration makes it, with the readings taken there."""
    if guard.skip is None:
        return guard
    left, right = (numbers[readings[n]] for n in (guard.skip.left, guard.skip.right))
    return replace(guard, skip=replace(guard.skip, left=left, right=right))
