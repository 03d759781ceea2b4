"""What the gradients carry at a line, as people read it: a hover in full, a hint in a few words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ampcheck.events import Backward, Clip, Edit, Read, Reduce, Step, Unscale, ZeroGrad
from ampcheck.server.carrying import Moment, carried, moments
from ampcheck.trace import Trace

__all__ = ["hint", "hinted", "hover"]

WIDEST = 60
HINTED = (Backward, Clip, Edit, Read, Reduce, Step, Unscale, ZeroGrad)
COUNT = re.compile(r", (\d+) micro-batches")


def hover(traces: Sequence[Trace], path: str, line: int) -> str | None:
    """The text of a hover in Markdown; None where no run has to do with the line."""
    found = moments(traces, path, line)
    if not found:
        return None
    rows = [f"- {_when(moment)}{_what(moment)}" for moment in found]
    return "\n".join(["**What the gradients carry here**", "", *rows, "", _which(found[0].trace)])


def hint(traces: Sequence[Trace], path: str, line: int) -> str | None:
    """What happens on a line, in a few words; None where nothing does."""
    texts = [text for moment in moments(traces, path, line) for text in moment.events]
    said = " · ".join(_counted(list(dict.fromkeys(texts))))
    return (said if len(said) <= WIDEST else said[: WIDEST - 2].rstrip() + " …") or None


def hinted(traces: Sequence[Trace], path: str) -> list[int]:
    """The lines of a file on which something happens to gradients."""
    events = (record.event for trace in traces for record in trace.records)
    return sorted({e.site.line for e in events if e.site.path == path and isinstance(e, HINTED)})


def _counted(texts: list[str]) -> list[str]:
    """The texts, those that differ in how many micro-batches there are by now as one."""
    counts: dict[str, list[str]] = {}
    for text in texts:
        number = COUNT.search(text)
        counts.setdefault(COUNT.sub("", text), []).append(number[1] if number else "1")
    return [
        f"{text}, {numbers[0]} to {numbers[-1]} micro-batches" if len(numbers) > 1 else _one(text, texts)
        for text, numbers in counts.items()
    ]


def _one(text: str, texts: list[str]) -> str:
    return next(whole for whole in texts if COUNT.sub("", whole) == text)


def _when(moment: Moment) -> str:
    window = moment.trace.window
    if moment.micro < 1:
        return "before the first micro-batch: "
    if window is None or window.length < 2:
        return f"micro-batch {moment.micro}: "
    return f"micro-batch {(moment.micro - 1) % window.length + 1} of {window.length}: "


def _what(moment: Moment) -> str:
    before, after = (carried(moment.trace, state) for state in (moment.before, moment.after))
    change = before if before == after else f"{before} → {after}"
    # What a backward leaves stands there already.
    more = [text for text in moment.events if text not in change and not text.startswith("gradients")]
    return f"{change} ({'; '.join(more)})" if more else change


def _which(trace: Trace) -> str:
    """Which run it is: where it begins, under which options, with which window."""
    parts = [f"in a run of `{trace.root}`" if trace.root != "the module" else "in a run of the file"]
    if trace.condition:
        parts.append(f"when `{trace.condition}`")
    if trace.window is not None:
        length = "" if trace.window.literal else f", run as {trace.window.length}"
        parts.append(f"with a window of K = `{trace.window.text}`{length}")
    return "; ".join(parts) + ". S: the loss scale, K: the window, W: the number of ranks"
