"""Where a clip stands relative to the backward and the step whose gradients it should bound.

The rules about misplaced clips share these questions, so that each clip breaks one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_within, meets_fresh, next_touch, optimizers
from ampcheck.events import Backward, Clip, Site, Step
from ampcheck.trace import Record, Trace
from ampcheck.windows import fresh, previous_step

__all__ = ["clip_sites", "clipped", "follows_step", "idle_clips", "is_clipped", "step_missed", "sure_owners"]


def clip_sites(trace: Trace) -> Iterator[list[Record]]:
    """The clips of a trace by place.

    Clips in tensor hooks are left out: they run inside each backward, where no misplacement is possible.
    """
    sites: dict[Site, list[Record]] = {}
    for record, clip in trace.of(Clip):
        if clip.by != "hook":
            sites.setdefault(clip.site, []).append(record)
    yield from sites.values()


def idle_clips(trace: Trace) -> Iterator[list[Record]]:
    """The clips of each place that never meets gradients that a step is still to use."""
    for records in clip_sites(trace):
        if not any(meets_fresh(trace, r, o) for r in records for o in clipped(r)):
            yield records


def clipped(record: Record) -> tuple[str, ...]:
    """The owners that a clip bounds."""
    return record.event.owners if isinstance(record.event, Clip) else ()


def sure_owners(trace: Trace, record: Record) -> tuple[str, ...]:
    """The optimizers among a clip's owners of which something certain can be said."""
    return tuple(o for o in clipped(record) if o in optimizers(trace))


def is_clipped(trace: Trace, step: Record, optimizer: str) -> bool:
    """Whether a clip bounds what a step uses: one after its last backward, or one in a tensor hook."""
    if any(clip.by == "hook" and optimizer in clip.owners for _, clip in trace.of(Clip)):
        return True
    for record in reversed(trace.records[: step.index]):
        match record.event:
            case Clip(owners=owners) if optimizer in owners:
                return True
            case Backward(reaches=owners) if optimizer in owners:
                return False
            case _:
                pass
    return False


def follows_step(trace: Trace, record: Record, optimizer: str) -> Record | None:
    """The step of the same iteration that a clip comes too late for: nothing has been added since."""
    step = previous_step(trace, record.index, optimizer)
    if step is None or fresh(trace, record, optimizer) or not is_within(step, record.iteration):
        return None
    return step


def step_missed(trace: Trace, record: Record) -> Record | None:
    """The step of another optimizer, right after a clip, whose waiting gradients the clip leaves alone."""
    for optimizer in optimizers(trace):
        if optimizer in clipped(record) or not fresh(trace, record, optimizer):
            continue
        touch = next_touch(trace, record.index, optimizer)
        if touch and isinstance(touch.event, Step) and not is_clipped(trace, touch, optimizer):
            return touch
    return None
