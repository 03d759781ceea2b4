"""AMP316 boundary-skipped."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import accumulates, boundary_of, is_sure, length, optimizers, spans
from ampcheck.events import Backward, Jump
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace, Window
from ampcheck.windows import name, once_per_site, story


class BoundarySkipped(Rule):
    """A jump skips the boundary test, so that two windows merge.

    ## What it does
    Finds a `continue` or `return` that leaves the iteration in which the window should have ended; the next step then
    uses more than K micro-batches.

    ## Why is this bad
    The merged window is still divided by K: with K = 3 five contributions are divided by three, and the update is too
    large. It happens on rare inputs only.

    ## Example
    ```python
    loss = criterion(model(inputs), targets)
    if not torch.isfinite(loss):
        continue
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    loss = criterion(model(inputs), targets)
    if torch.isfinite(loss):
        (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    A counter that counts only the micro-batches with a backward does not have the fault, and is not reported.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP316"
    name = "boundary-skipped"
    severity = "warning"
    oracle = ("windows", "gradient")
    hint = "skip the backward only, or count the micro-batches that were used"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the jumps in whose iteration a window should have ended."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if span.step is None or not accumulates(span) or boundary_of(span.step) is None:
                    continue
                buffer = span.step.before.buffer(optimizer)
                merged = buffer.micros
                if len(merged) <= window.length or len(span.epochs) > 1 or not is_sure(buffer):
                    continue
                if any(c.record not in {r.index for r, _ in span.backwards} for c in buffer.contributions):
                    continue
                jump = _at_boundary(span.records, optimizer, window.length)
                if jump is not None:
                    yield Violation(
                        jump.index,
                        f"this `{_kind(jump)}` skips the end of a window: {name(trace, optimizer)} then steps on "
                        f"more than {window.text} micro-batches",
                        story(trace, span.backwards[0][0], span.backwards[-1][0], span.step),
                        predicts="2K - 1",
                    )


def _kind(record: Record) -> str:
    return record.event.kind if isinstance(record.event, Jump) else ""


def _at_boundary(records: tuple[Record, ...], optimizer: str, length: int) -> Record | None:
    """The user's own jump in the iteration in which the K-th micro-batch since the last step ended."""
    before: set[tuple[int, ...]] = set()
    for record in records:
        event = record.event
        if isinstance(event, Backward) and optimizer in event.reaches:
            before.add(record.iteration)
        elif isinstance(event, Jump) and event.kind in ("continue", "return"):
            own = any(g.varying and not g.boundary for g in record.guards)
            # Jumps count as micro-batches too: the boundary test counts iterations.
            before.add(record.iteration)
            if own and len(before) >= length:
                return record
    return None
