"""AMP203 clip-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import boundary_of, is_sure, length, next_touch, optimizers
from ampcheck.clipping import clipped, follows_step, step_missed
from ampcheck.events import Backward, Clip, Step
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import fresh, name, once_per_site, story


class ClipInsideWindow(Rule):
    """Gradients are clipped on micro-batches that do not step.

    ## What it does
    Finds a clip inside an accumulation window: backwards of further micro-batches follow before the step.

    ## Why is this bad
    Each clip rescales what has been summed so far, so that early micro-batches lose weight and the direction of the
    update bends, while its norm looks right: two orthogonal micro-gradients come out as (0.447, 0.894) for
    (0.6, 0.8).

    ## Example
    ```python
    (loss / accumulation_steps).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    Clipping in tensor hooks is left alone. So is clipping each micro-batch on purpose through `.grad` copies.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP203"
    name = "clip-inside-window"
    severity = "error"
    oracle = ("gradient", "clip-norm")
    hint = "clip only at the boundary, between the window's last backward and the step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each clip that a backward of another micro-batch follows before the step."""
        if length(trace) > 1 and trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if not accumulates(span) or span.step is None:
                    continue
                for record in span.records:
                    if not isinstance(record.event, Clip) or optimizer not in record.event.owners:
                        continue
                    later = _late(trace, record, span.step, optimizer)
                    if later is not None and is_sure(record.before.buffer(optimizer)):
                        yield Violation(
                            record.index,
                            f"the clip runs inside the window of {name(trace, optimizer)}, before "
                            f"{_rest(trace, record, span.step)}",
                            story(trace, later, span.step),
                        )


def _late(trace: Trace, record: Record, step: Record, optimizer: str) -> Record | None:
    """The backward of another micro-batch that follows a misplaced clip."""
    event = record.event
    if not isinstance(event, Clip) or event.by == "hook" or step_missed(trace, record):
        return None
    if follows_step(trace, record, optimizer) or any(_serves(trace, record, o) for o in clipped(record)):
        return None
    backward = next_touch(trace, record.index, optimizer)
    if backward is None or not isinstance(backward.event, Backward) or backward.index > step.index:
        return None
    micros = {c.micro for c in fresh(trace, record, optimizer)}
    # A full window here means that a test of the user's own skipped its step, not that the clip is early.
    if backward.event.micro in micros or len(micros) >= length(trace):
        return None
    mine, steps = boundary_of(record), boundary_of(step)
    agree = mine is not None and steps is not None and mine.text == steps.text
    return None if agree and backward.iteration != record.iteration else backward


def _serves(trace: Trace, record: Record, owner: str) -> bool:
    """Whether an owner's step follows a clip directly: the clip is there for it."""
    touch = next_touch(trace, record.index, owner)
    return touch is not None and isinstance(touch.event, Step) and bool(fresh(trace, record, owner))


def _rest(trace: Trace, record: Record, step: Record) -> str:
    """What the clip should wait for; both tests where they disagree."""
    mine, steps = boundary_of(record), boundary_of(step)
    if mine and steps and mine.text != steps.text:
        return f"the step: it is guarded by `{mine.text}`, the step by `{steps.text}`"
    count = trace.window.named if trace.window else "K"
    return f"all {count} micro-batches are in"
