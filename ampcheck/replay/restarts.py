"""A function that trains, called twice: its second loop begins to count from nought again, and is another one."""

from __future__ import annotations

from dataclasses import replace

from ampcheck.trace import Record, Trace

__all__ = ["told_apart"]


def told_apart(trace: Trace) -> Trace:
    """The trace with iterations that are numbered on where their outermost loop begins anew."""
    records: list[Record] = []
    offset = last = 0
    for record in trace.records:
        if record.iteration:
            first, *inner = record.iteration
            if first + offset < last:
                offset = last + 1
            last = first + offset
            record = replace(record, iteration=(last, *inner))
        records.append(record)
    return replace(trace, records=tuple(records)) if offset else trace
