"""AMP316 boundary-skipped."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import boundary_of, is_sure, length, optimizers
from ampcheck.events import Backward, Jump, ZeroGrad
from ampcheck.rule import Rule, Violation
from ampcheck.spans import Span, spans
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
                if span.step is None or boundary_of(span.step) is None or len(span.rounds) > 1:
                    continue
                if not is_sure(span.step.before.buffer(optimizer)):
                    continue
                jump = _merges(span, window.length) or _shortens(span, window.length)
                if jump is not None:
                    yield Violation(
                        jump.index,
                        f"this `{_kind(jump)}` can skip the end of a window: {name(trace, optimizer)} then steps "
                        f"on more than {window.named} micro-batches",
                        story(trace, span.backwards[0][0], span.backwards[-1][0], span.step),
                        predicts="2K - 1",
                    )


def _merges(span: Span, length: int) -> Record | None:
    """The jump in the iteration that should have ended a window which has run on to the next boundary."""
    held = span.step.before.buffer(span.optimizer).contributions if span.step else ()
    if len({c.micro for c in held}) <= length or not {c.record for c in held} <= {
        r.index for r, _ in span.backwards
    }:
        return None
    passed: set[tuple[int, ...]] = set()
    for record in span.records:
        if isinstance(record.event, Backward | Jump):
            passed.add(record.iteration)
        if _is_own(record, span) and len(passed) >= length:
            return record
    return None


def _shortens(span: Span, length: int) -> Record | None:
    """A jump inside a window that has ended in time although it lacks a micro-batch: the test counts iterations.

    The same jump skips the boundary when it happens there.
    """
    jumps = [r for r in span.records if _is_own(r, span)]
    passed = {r.iteration for r, _ in span.backwards} | {r.iteration for r in jumps}
    if not jumps or len(passed) != length or len(span.micros) >= length:
        return None
    return jumps[0]


def _is_own(record: Record, span: Span) -> bool:
    """Whether a record is a jump by a test of the user's own that stands before the step and keeps the gradients."""
    if not isinstance(record.event, Jump) or record.event.kind not in ("continue", "return"):
        return False
    if any(
        isinstance(r.event, ZeroGrad) and span.optimizer in r.event.owners and r.iteration == record.iteration
        for r in span.records
    ):
        return False
    passed = {(g.text, g.holds) for g in span.step.guards} if span.step else set()
    return any(g.varying and not g.boundary and (g.text, not g.holds) in passed for g in record.guards)


def _kind(record: Record) -> str:
    return record.event.kind if isinstance(record.event, Jump) else ""
