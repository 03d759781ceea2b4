"""What the gradients carry at a line of code, by the runs that pass it.

    record ── record ── record        a line is *reached* where an event happens on it, or in what it calls
           └ gap ┘                    or it is *passed* between two events of one iteration, or before or after them

Said of the first run that has to do with the line: the one in which every option comes out as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ampcheck.events import Backward, Site
from ampcheck.gradients import Buffer, State
from ampcheck.report.carries import carries, gradients
from ampcheck.trace import Record, Trace

__all__ = ["Moment", "carried", "moments"]

# So many visits of a line are told of, which is a window and the beginning of the next.
MOST = 4
# What a call does is told event by event, where it does no more than this.
MOST_EVENTS = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """One time that a run comes to a line: the gradients before and after, and what happens there.

    `micro` numbers the micro-batch from 1, 0 where there is none.  Where nothing happens, `before` is `after`.
    """

    trace: Trace
    micro: int
    before: State
    after: State
    events: tuple[str, ...] = ()


def moments(traces: Sequence[Trace], path: str, line: int) -> list[Moment]:
    """The first visits of a line in the first run that reaches it, or else passes it; none where no run does."""
    for visits in (_reached, _passed):
        for trace in traces:
            found = list(visits(trace, path, line))
            if found:
                return _distinct(found)[:MOST]
    return []


def carried(trace: Trace, state: State) -> str:
    """All gradients in words, by optimizer where they differ: ``gradients × S / K, 2 micro-batches``."""
    owners = list(dict.fromkeys([*(r.id for r in trace.roles_of("optimizer")), *state.buffers]))
    said = {owner: _held(trace, state.buffer(owner)) for owner in owners}
    if len(set(said.values())) < 2:
        return next(iter(said.values()), "no gradients")
    return "; ".join(f"{owner.removeprefix('free:')}: {text}" for owner, text in said.items())


def _held(trace: Trace, buffer: Buffer) -> str:
    text = gradients(buffer)
    if buffer.is_empty:
        return text
    if len(buffer.micros) == 1 and trace.window is not None:
        text += ", 1 micro-batch"
    if buffer.opaque:
        text += ", handed to code that is not visible"
    if "clipped" in buffer.marks:
        text += ", clipped"
    if _is_distributed(trace) or any(not c.synced for c in buffer.contributions):
        # One synchronised backward reduces all that has gathered.
        text += ", synchronised" if buffer.contributions[-1].synced else ", not synchronised"
    return text + (", already used by a step" if buffer.stepped else "")


def _is_distributed(trace: Trace) -> bool:
    return any(role.detail for role in trace.roles_of("model"))


def _at(record: Record, path: str) -> tuple[tuple[Site, ...], Site] | None:
    """Where a record is in a file, from outside: the calls that lead to that function, and the place in it."""
    if record.event.site.path == path:
        return record.calls, record.event.site
    inner = [index for index, call in enumerate(record.calls) if call.path == path]
    return (record.calls[: inner[-1]], record.calls[inner[-1]]) if inner else None


def _reached(trace: Trace, path: str, line: int) -> Iterator[Moment]:
    """The visits of a line with an event on it, or in what it calls."""
    group: list[Record] = []
    for record in trace.records:
        sites = (*_calls(trace, record), record.event.site)
        on_line = any(site.path == path and site.line <= line <= site.end_line for site in sites)
        if group and not (on_line and record.iteration == group[-1].iteration):
            yield _moment(trace, group)
            group = []
        if on_line:
            group.append(record)
    if group:
        yield _moment(trace, group)


def _moment(trace: Trace, group: Sequence[Record]) -> Moment:
    said = tuple(dict.fromkeys(text for record in group if (text := carries(trace, record))))
    events = said if len(said) <= MOST_EVENTS else ()
    return Moment(trace, _micro(trace, group[0]), group[0].before, group[-1].after, events)


def _passed(trace: Trace, path: str, line: int) -> Iterator[Moment]:
    """The visits of a line on which nothing happens to gradients.

    Between two events of one iteration it is certainly passed; before the first or behind the last of them it may be
    jumped over, so that counts only for a line that is never between two.
    """
    here = [(record, *at) for record in trace.records if (at := _at(record, path)) is not None]
    between: list[Moment] = []
    around: list[Moment] = []
    for one, other in pairwise((None, *here, None)):
        if one and other and one[1] == other[1] and one[0].iteration == other[0].iteration:
            if one[2].end_line < line < other[2].line:
                between.append(_still(trace, one[0], one[0].after))
        elif other and line < other[2].line and _in_loop(other[0], path, line):
            around.append(_still(trace, other[0], other[0].before))
        elif one and one[2].end_line < line and _in_loop(one[0], path, line):
            around.append(_still(trace, one[0], one[0].after))
    yield from between or around


def _still(trace: Trace, near: Record, state: State) -> Moment:
    return Moment(trace, _micro(trace, near), state, state)


def _micro(trace: Trace, record: Record) -> int:
    """The number of the micro-batch that a record belongs to: its backward may be yet to come."""
    later = (r for r in trace.records[record.index :] if isinstance(r.event, Backward))
    backward = next(later, None)
    if backward is not None and (backward.epoch, backward.iteration) == (record.epoch, record.iteration):
        return backward.micro + 1
    return record.micro + 1


def _calls(trace: Trace, record: Record) -> tuple[Site, ...]:
    """The calls that lead to a record; the first of them is the definition of a root that nothing calls."""
    calls = record.calls
    if (
        calls
        and calls[0].line == calls[0].end_line
        and calls[0].end_column - calls[0].column == len(trace.root)
    ):
        return calls[1:]
    return calls


def _in_loop(record: Record, path: str, line: int) -> bool:
    loop = record.loop
    return loop is not None and loop.path == path and loop.line < line <= loop.end_line


def _distinct(found: Sequence[Moment]) -> list[Moment]:
    """The visits without those that are like an earlier one."""
    seen: dict[tuple[str, str, tuple[str, ...]], Moment] = {}
    for moment in found:
        before, after = (carried(moment.trace, state) for state in (moment.before, moment.after))
        seen.setdefault((before, after, moment.events), moment)
    return list(seen.values())
