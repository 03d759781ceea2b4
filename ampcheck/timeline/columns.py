"""Which micro-batch an event belongs to, and which micro-batches a picture shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from ampcheck.events import Backward, Step
from ampcheck.trace import Record

__all__ = ["MOST", "micros_of", "shown"]

MOST = 8
"""How many micro-batches a picture shows; more of them are left out in the middle."""


def micros_of(records: Sequence[Record]) -> dict[int, int]:
    """The micro-batch of each record by its index.

    A record counts micro-batches by their backwards, so what precedes the backward of an iteration still has the
    number of the one before: it belongs to its own iteration.
    """
    backwards = [(r.index, r) for r in records if isinstance(r.event, Backward)]
    places = [index for index, _ in backwards]
    found: dict[int, int] = {}
    for record in records:
        before = bisect_right(places, record.index) - 1
        after = bisect_left(places, record.index)
        previous = backwards[before][1] if before >= 0 else None
        following = backwards[after][1] if after < len(backwards) else None
        if previous is not None and _within(previous, record):
            found[record.index] = previous.micro
        elif following is not None and _within(following, record):
            found[record.index] = following.micro
        else:
            found[record.index] = record.micro
    return found


def _within(backward: Record, record: Record) -> bool:
    """Whether a backward runs in the iteration of a record, or in a loop inside it."""
    depth = len(record.iteration)
    return bool(depth) and backward.iteration[:depth] == record.iteration


def shown(records: Sequence[Record], micros: dict[int, int], told: Iterable[int], length: int) -> list[int]:
    """The micro-batches to show: the windows that hold the records told, the first one where none is.

    `length` is K.  A window ends with the micro-batch of its step; the middle of a long one is left out.
    """
    every = sorted({micros[r.index] for r in records if isinstance(r.event, Backward | Step)})
    if not every:
        return []
    closing = {micros[r.index] for r in records if isinstance(r.event, Step)}
    wanted = sorted({micros[index] for index in told if index in micros} & set(every)) or every[:1]
    first, last = every.index(wanted[0]), every.index(wanted[-1])
    while first > 0 and every[first - 1] not in closing and last - first + 1 < length:
        first -= 1
    while last + 1 < len(every) and (
        last - first + 1 < length
        or (closing.isdisjoint(every[first : last + 1]) and last - first < 2 * length)
    ):
        last += 1
    chosen = every[first : last + 1]
    if len(chosen) <= MOST:
        return chosen
    kept = {*chosen[:2], *wanted[:2], *wanted[-2:], *chosen[-2:]}
    return [micro for micro in chosen if micro in kept]
