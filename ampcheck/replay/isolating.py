"""A fault by itself: a run without the other faults of its loop, as far as they can be left out.

Two faults in one loop bend the same gradients, and a replay of both would confirm the one with the other's figures: a
clip before `unscale_` makes any norm M/S, whatever the loss was divided by.  What nothing else depends on is therefore
left out where a rule finds fault with it (a clip, a read, a schedule), and a loss gets the unit that it should have.
Whether that took away the other fault, and only that, the rules themselves say of the altered run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ampcheck import events as ev
from ampcheck.gradients import apply
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace

__all__ = ["Isolated", "Isolation"]

MOST_OTHERS = 8
"""Other faults of one run that are tried to be left out."""

Place = tuple[str, ev.Site]
"""A fault: its rule's code, and where it is reported."""

SEPARATE = ev.Clip | ev.Edit | ev.Read | ev.ScheduleStep | ev.AverageUpdate


@dataclass(frozen=True, slots=True)
class Isolated:
    """A run with other faults left out.  `left_out` are the codes of those, `beside` of those that had to stay.

    `places` gives the new index of each record that is still there; those that stay come with the record they show at.
    """

    trace: Trace
    places: Mapping[int, int]
    left_out: tuple[str, ...] = ()
    beside: tuple[tuple[str, int], ...] = ()


class Isolation:
    """Leaves faults out; what the rules say of a run is remembered."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rule for rule in rules if rule.oracle)
        self._known: dict[int, tuple[Trace, dict[Place, bool]]] = {}

    def of(self, trace: Trace, rule: Rule, record: int) -> Isolated:
        """The run with the fault of `rule` at a record alone, of those that show in the same observables."""
        kept = frozenset(self._reported(trace, rule, record))
        as_it_is = Isolated(trace, {r.index: r.index for r in trace.records})
        if not kept:
            return as_it_is  # it is not this run alone that shows it
        isolated = self._alone(trace, kept, rule)
        return isolated if record in isolated.places else as_it_is

    def without_faults(self, trace: Trace, spared: type[ev.Event]) -> Isolated:
        """The run without any fault that can be left out; events of the kind that is `spared` stay as they are."""
        return self._alone(trace, frozenset(), None, spared)

    def _alone(
        self,
        trace: Trace,
        kept: frozenset[Place],
        rule: Rule | None,
        spared: type[ev.Event] | None = None,
    ) -> Isolated:
        isolated = Isolated(trace, {r.index: r.index for r in trace.records})
        stay: set[Place] = set()
        for _ in range(MOST_OTHERS):
            others = sorted(
                place
                for place, certain in self._faults(isolated.trace).items()
                if certain and place not in kept | stay and self._alike(place[0], rule)
            )
            if not others:
                break
            altered = self._without(isolated, others[0], kept, spared)
            if altered is None:
                stay.add(others[0])
            else:
                isolated = altered
        return replace(isolated, beside=tuple(self._beside(isolated.trace, stay, rule)))

    def _beside(self, trace: Trace, stay: Iterable[Place], rule: Rule | None) -> Iterator[tuple[str, int]]:
        for place in sorted(stay):
            records = [v.record for v in self._violations(trace, place)]
            if records and (
                rule is None or place[0] != rule.code
            ):  # two of one kind are each other's evidence
                yield place[0], min(records)

    def _reported(self, trace: Trace, rule: Rule, record: int) -> Iterator[Place]:
        for violation in rule.check(trace):
            if violation.record == record:
                yield rule.code, _site(trace, violation)

    def _alike(self, code: str, rule: Rule | None) -> bool:
        oracle = next(r.oracle for r in self.rules if r.code == code)
        return rule is None or not set(rule.oracle).isdisjoint(oracle)

    def _faults(self, trace: Trace) -> dict[Place, bool]:
        """Every fault of a run that a replay may see, and whether its rule is sure of it."""
        if id(trace) not in self._known:
            found: dict[Place, bool] = {}
            for rule in self.rules:
                for violation in rule.check(trace):
                    place = rule.code, _site(trace, violation)
                    if (violation.severity or rule.severity) != "note":
                        found[place] = violation.certain or found.get(place, False)
            self._known[id(trace)] = trace, found
        return self._known[id(trace)][1]

    def _without(
        self, isolated: Isolated, other: Place, kept: frozenset[Place], spared: type[ev.Event] | None
    ) -> Isolated | None:
        """The run without one more fault; None where it cannot be left out alone."""
        before = self._faults(isolated.trace).keys()
        for violation in self._violations(isolated.trace, other):
            for alter in _alterations(isolated.trace, violation):
                trace, places = _altered(isolated.trace, alter, spared)
                after = self._faults(trace).keys()
                if other not in after and kept <= after <= before:
                    joined = {old: places[new] for old, new in isolated.places.items() if new in places}
                    return Isolated(trace, joined, (*isolated.left_out, other[0]))
        return None

    def _violations(self, trace: Trace, place: Place) -> Iterator[Violation]:
        code, site = place
        rule = next(r for r in self.rules if r.code == code)
        for violation in rule.check(trace):
            if site == _site(trace, violation):
                yield violation


def _site(trace: Trace, violation: Violation) -> ev.Site:
    return violation.site or trace.records[violation.record].event.site


Alteration = Callable[[Record], ev.Event | None]
"""What a record's event becomes; None where it is left out."""


def _alterations(trace: Trace, violation: Violation) -> Sequence[Alteration]:
    """How the fault of a violation may be left out."""
    event = trace.records[violation.record].event
    match event:
        case _ if isinstance(event, SEPARATE):
            same = type(event), event.site
            return (lambda r: None if (type(r.event), r.event.site) == same else r.event,)
        case ev.Backward() | ev.Step():
            right = [_in_unit(scale=((scaler, 1),)) for scaler in _scalers(trace)]
            return _in_unit(window=-1), _in_unit(world=0), *right
        case _:
            return ()


def _in_unit(**right: Any) -> Alteration:
    """A backward whose loss has another unit in this respect; any other event as it is."""

    def alter(record: Record) -> ev.Event:
        event = record.event
        if not isinstance(event, ev.Backward):
            return event
        parts = tuple(unit if unit.other else replace(unit, **right) for unit in event.loss.parts)
        return replace(event, loss=replace(event.loss, parts=parts))

    return alter


def _scalers(trace: Trace) -> tuple[str, ...]:
    """The scaler of every step, if it is one and the same."""
    found = {event.scaler for _, event in trace.of(ev.Step)}
    return tuple(s for s in found if s is not None) if len(found) == 1 else ()


def _altered(trace: Trace, alter: Alteration, spared: type[ev.Event] | None) -> tuple[Trace, dict[int, int]]:
    """A run with other events, and the new index of each record that is still there."""
    records: list[Record] = []
    places: dict[int, int] = {}
    state = trace.records[0].before
    for record in trace.records:
        event = record.event if spared and isinstance(record.event, spared) else alter(record)
        if event is None:
            continue
        index = places[record.index] = len(records)
        effect = apply(state, event, index)
        records.append(
            replace(
                record, index=index, event=event, before=state, after=effect.state, refused=effect.refused
            )
        )
        state = effect.state
    return replace(trace, records=tuple(records)), places
