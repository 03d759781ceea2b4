"""AMP505 average-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import boundary_of, length, optimizers
from ampcheck.events import AverageUpdate
from ampcheck.rule import Rule, Violation
from ampcheck.spans import Span, accumulates, own_micros, round_of, spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, once_per_site, story


class AverageInsideWindow(Rule):
    """A moving average of the weights is updated on every micro-batch.

    ## What it does
    Finds an EMA, SWA or teacher update that runs several times per accumulation window, while the weights change once.

    ## Why is this bad
    The same weights are taken in K times: the decay d becomes d^K, the average follows the weights K times as fast
    and smooths less.

    ## Example
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ema.update(model)
    ```

    ## Use instead
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
        ema.update(model)
    ```

    ## Known problems
    An average that counts steps for itself, or whose decay was chosen per micro-batch, cannot be told apart.

    ## References
    - [Weight averaging (SWA and EMA)](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
    """

    code = "AMP505"
    name = "average-inside-window"
    severity = "warning"
    oracle = ("decay",)
    hint = "update the average at the boundary, after the optimizer's step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the averages that take in the same weights several times."""
        if length(trace) > 1 and trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        averages = {event.average for _, event in trace.of(AverageUpdate)}
        found = {o: list(spans(trace, o)) for o in optimizers(trace)} if averages else {}
        for average in sorted(averages):
            # With several optimizers the average may belong to any of them: each must wait meanwhile.
            idle = [first for all_of_it in found.values() if (first := _repeated(trace, all_of_it, average))]
            if not idle or len(idle) < len(found):
                continue
            updates, step = max(idle, key=lambda pair: pair[0][0].index)
            boundary = boundary_of(step)
            count = trace.window.named if trace.window else "K"
            when = f"only when `{boundary.text}`" if boundary else f"once for {count} of them"
            yield Violation(
                updates[0].index,
                f"{name(trace, average)} is updated on every micro-batch, the weights {when}",
                story(trace, *updates[1:2], step),
                certain=are_known(trace, average),
                predicts="d^K",
            )


def _repeated(trace: Trace, all_spans: list[Span], average: str) -> tuple[list[Record], Record] | None:
    """The updates of an average on several micro-batches of one round between two steps, with the later step."""
    for span in all_spans:
        if span.step is None or not accumulates(span) or len(own_micros(trace, span)) < 2:
            continue
        inside = {record.iteration for record, _ in span.backwards}
        boundary = boundary_of(span.step)
        updates = [
            r
            for r in span.records
            if isinstance(r.event, AverageUpdate) and r.event.average == average and r.iteration in inside
        ]
        if boundary and any((g := boundary_of(r)) and g.text == boundary.text for r in updates):
            continue
        for one in sorted({round_of(r) for r in updates}):
            together = [r for r in updates if round_of(r) == one]
            if len({r.iteration for r in together}) > 1:
                return together, span.step
    return None
