"""AMP305 loss-not-divided."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import (
    boundary_of,
    is_ambiguous_literal,
    is_sure,
    length,
    names_accumulation,
    optimizers,
)
from ampcheck.engines import DOUBLED
from ampcheck.events import PLAIN, Edit
from ampcheck.precedence import inside_hooks
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, is_stray, spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story


class LossNotDivided(Rule):
    """Micro-batches are summed without a division by their number.

    ## What it does
    Finds a window of K micro-batches of a mean-reduced loss where nothing divides the loss or the gradients by K.

    ## Why is this bad
    The gradient is K times that of one large batch: the learning rate is in effect K times as high, and a clip that
    was rare becomes the rule. Adam's parameters hide it; clipping and weight decay do not.

    ## Example
    ```python
    loss = criterion(model(inputs), targets)
    loss.backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    loss = criterion(model(inputs), targets)
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    A learning rate that was divided by K beforehand cannot be seen. A loss with `reduction="sum"`, or with a divisor
    that is not K, is left alone. A loss of unknown making (an argument, what a model returns) is reported as possible
    only: it may be a sum, or divided already.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP305"
    name = "loss-not-divided"
    severity = "error"
    oracle = ("gradient",)
    of_loop = True
    hint = "divide the loss by the number of micro-batches before its backward"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first backward of each optimizer's first window that is summed as it is."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        if not window.declared & {"step", "zero", "loop"}:
            return
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if span.step is None or not accumulates(span):
                    continue
                buffer = span.step.before.buffer(optimizer)
                own = [c for c in buffer.contributions if not is_stray(trace, c, optimizer, span.step)]
                if len({c.micro for c in own}) < 2 or not is_sure(buffer) or buffer.stepped:
                    continue
                if any(c.unit.window or c.unit.other or c.reduction == "sum" or c.record < 0 for c in own):
                    continue
                if any(inside_hooks(trace).get(c.record) in DOUBLED for c in own):
                    continue  # a second backward beside the engine's own is the mistake
                edited = any(
                    isinstance(r.event, Edit)
                    and r.event.effect == "multiply"
                    and r.event.factor == PLAIN
                    and optimizer in r.event.owners
                    for r in span.records
                )
                gated = boundary_of(span.step) is not None
                yield Violation(
                    own[0].record,
                    f"{window.named} micro-batches are summed for one step of {name(trace, optimizer)}, "
                    f"but nothing divides by {window.named}",
                    story(trace, own[-1].record, span.step),
                    # ``for _ in range(n)`` may as well run over losses that are meant to be summed.
                    certain=not edited
                    # A sum needs no division, and whoever made a loss that is handed in may have divided it.
                    and all(c.reduction == "mean" for c in own)
                    and (names_accumulation(window) or (gated and not is_ambiguous_literal(window))),
                    predicts="K",
                )
                break
