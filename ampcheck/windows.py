"""Questions that rules ask of a trace: what comes before and after a record, and what its gradients carry.

A *window* of an optimizer runs from one of its steps (exclusive) to the next (inclusive).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ampcheck.events import Backward, Build, Escape, Event, Jump, Step, Unit, Update, ZeroGrad
from ampcheck.gradients import READY, Buffer, Contribution, State
from ampcheck.rule import Violation
from ampcheck.trace import Guard, Record, Trace

__all__ = [
    "are_known",
    "boundary_guards_beyond",
    "carried_scales",
    "escapes_between",
    "exponents",
    "fresh",
    "left_by_test",
    "name",
    "names",
    "next_backward",
    "next_step",
    "next_update",
    "next_zero",
    "once_per_site",
    "origin",
    "previous_backward",
    "previous_step",
    "previous_update",
    "previous_zero",
    "repeats_statement",
    "same_micro_batch",
    "share_gradients",
    "story",
    "tests_beyond",
    "window",
    "windows",
]

Matches = Callable[[Event], bool]

# --- before and after ---


def _next(trace: Trace, index: int, matches: Matches) -> Record | None:
    return next((r for r in trace.records[index + 1 :] if matches(r.event)), None)


def _previous(trace: Trace, index: int, matches: Matches) -> Record | None:
    return next((r for r in reversed(trace.records[: max(index, 0)]) if matches(r.event)), None)


def _steps(optimizer: str) -> Matches:
    return lambda event: isinstance(event, Step) and event.optimizer == optimizer


def _updates(scaler: str) -> Matches:
    return lambda event: isinstance(event, Update) and event.scaler == scaler


def _reaches(owner: str) -> Matches:
    return lambda event: isinstance(event, Backward) and owner in event.reaches


def _zeroes(owner: str) -> Matches:
    return lambda event: isinstance(event, ZeroGrad) and owner in event.owners


def next_step(trace: Trace, index: int, optimizer: str) -> Record | None:
    """The first step of an optimizer, raw or scaled, after a record."""
    return _next(trace, index, _steps(optimizer))


def previous_step(trace: Trace, index: int, optimizer: str) -> Record | None:
    """The last step of an optimizer, raw or scaled, before a record."""
    return _previous(trace, index, _steps(optimizer))


def next_update(trace: Trace, index: int, scaler: str) -> Record | None:
    """The first update of a scaler after a record, explicit or not."""
    return _next(trace, index, _updates(scaler))


def previous_update(trace: Trace, index: int, scaler: str) -> Record | None:
    """The last update of a scaler before a record, explicit or not."""
    return _previous(trace, index, _updates(scaler))


def next_backward(trace: Trace, index: int, owner: str) -> Record | None:
    """The first backward after a record that reaches an owner."""
    return _next(trace, index, _reaches(owner))


def previous_backward(trace: Trace, index: int, owner: str) -> Record | None:
    """The last backward before a record that reaches an owner."""
    return _previous(trace, index, _reaches(owner))


def next_zero(trace: Trace, index: int, owner: str) -> Record | None:
    """The first zeroing of an owner's gradients after a record."""
    return _next(trace, index, _zeroes(owner))


def previous_zero(trace: Trace, index: int, owner: str) -> Record | None:
    """The last zeroing of an owner's gradients before a record."""
    return _previous(trace, index, _zeroes(owner))


def window(trace: Trace, index: int, optimizer: str) -> tuple[Record, ...]:
    """The window of an optimizer that a record lies in, open where the trace begins or ends.

    A step ends its own window.
    """
    last = previous_step(trace, index, optimizer)
    step = next_step(trace, index - 1, optimizer)
    return trace.records[last.index + 1 if last else 0 : step.index + 1 if step else None]


def windows(trace: Trace, optimizer: str) -> Iterator[tuple[Record, ...]]:
    """All windows of an optimizer, in order; the last one may lack its step."""
    start = 0
    while start < len(trace.records):
        records = window(trace, start, optimizer)
        yield records
        start += len(records)


def same_micro_batch(one: Record, other: Record) -> bool:
    """Whether two records belong to the same micro-batch."""
    return (one.epoch, one.micro) == (other.epoch, other.micro)


def repeats_statement(first: Record, second: Record) -> bool:
    """Whether one statement ran twice in a micro-batch: a loop over objects that may not be the same after all."""
    return first.event.site == second.event.site and same_micro_batch(first, second)


# --- guards ---


def _guards_beyond(record: Record, base: Record) -> Iterator[Guard]:
    shared = {(g.text, g.holds) for g in base.guards}
    return (g for g in record.guards if (g.text, g.holds) not in shared)


def tests_beyond(record: Record, base: Record) -> tuple[Guard, ...]:
    """The user's own varying tests (no boundary) that a record depends on and another does not."""
    return tuple(g for g in _guards_beyond(record, base) if g.varying and not g.boundary)


def boundary_guards_beyond(record: Record, base: Record) -> tuple[Guard, ...]:
    """The boundary tests that a record depends on and another does not."""
    return tuple(g for g in _guards_beyond(record, base) if g.boundary)


def left_by_test(trace: Trace, start: Record, stop: int) -> Record | None:
    """The jump between a record and index `stop` that a test of the user's own (no boundary) caused."""
    return next(
        (
            r
            for r in trace.between(start.index, stop)
            if isinstance(r.event, Jump)
            and not boundary_guards_beyond(r, start)
            and any(not g.boundary for g in _guards_beyond(r, start))
        ),
        None,
    )


# --- what gradients carry ---


def carried_scales(state: State, owner: str) -> tuple[str, ...]:
    """The scalers whose scale an owner's gradients carry and whose `unscale_` is still to come.

    Gradients that were unscaled too early and then added to are not meant: that is another mistake.
    """
    scales = {s for c in state.buffer(owner).contributions for s, exponent in c.unit.scale if exponent > 0}
    return tuple(sorted(s for s in scales if state.phase(s, owner) == READY))


def fresh(trace: Trace, record: Record, owner: str) -> tuple[Contribution, ...]:
    """The contributions that an owner holds before a record and that no step of its has used."""
    last = previous_step(trace, record.index, owner)
    return tuple(c for c in record.before.buffer(owner).contributions if not last or c.record > last.index)


def origin(trace: Trace, buffer: Buffer, contribution: Contribution) -> Unit | None:
    """The unit of the loss that a contribution came from; None when its backward is outside the trace."""
    if not 0 <= contribution.record < len(trace.records):
        return None
    event = trace.records[contribution.record].event
    siblings = [c for c in buffer.contributions if c.record == contribution.record]
    place = next(i for i, c in enumerate(siblings) if c is contribution)
    if not isinstance(event, Backward) or place >= len(event.loss.parts):
        return None
    return event.loss.parts[place]


def exponents(contributions: Iterable[Contribution], scaler: str) -> frozenset[int]:
    """The distinct exponents of one scaler's scale."""
    return frozenset(c.unit.scaled_by(scaler) for c in contributions)


def share_gradients(trace: Trace, first: Record, second: Record, owner: str) -> bool:
    """Whether two records of one micro-batch see the same gradients of an owner: no backward lies between."""
    later = next_backward(trace, first.index, owner)
    return same_micro_batch(first, second) and (later is None or later.index > second.index)


# --- certainty and presentation ---


def are_known(trace: Trace, *roles: str) -> bool:
    """Whether all roles are known by more than their names."""
    return all(role not in trace.roles or trace.roles[role].known for role in roles)


def escapes_between(trace: Trace, start: int, stop: int, *roles: str) -> bool:
    """Whether one of the roles was handed to unseen code, or rebuilt, after `start` and before `stop`."""
    for record in trace.between(start, stop):
        event = record.event
        if isinstance(event, Escape) and not set(roles).isdisjoint(event.roles):
            return True
        if isinstance(event, Build) and event.role in roles:
            return True
    return False


def name(trace: Trace, role: str) -> str:
    """How a message calls a role or owner, in backquotes: "`optimizer`", "parameters of `model`"."""
    kind, _, model = role.partition(":")
    if kind == "free" and model:
        return f"parameters of {name(trace, model)}"
    return f"`{trace.roles[role].text if role in trace.roles else role}`"


def names(trace: Trace, roles: Iterable[str]) -> str:
    """Several roles as a message calls them: "`opt_d` and `opt_g`"."""
    return " and ".join(name(trace, role) for role in roles)


def story(trace: Trace, *records: Record | int | None) -> tuple[int, ...]:
    """The distinct indices of the records given, in order, without those that are missing."""
    indices = {r.index if isinstance(r, Record) else r for r in records if r is not None}
    return tuple(sorted(i for i in indices if 0 <= i < len(trace.records)))


def once_per_site(trace: Trace, violations: Iterable[Violation]) -> Iterator[Violation]:
    """The first violation at each place in the source."""
    seen = set()
    for violation in violations:
        site = trace.records[violation.record].event.site
        if site not in seen:
            seen.add(site)
            yield violation
