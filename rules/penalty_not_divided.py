"""AMP311 penalty-not-divided."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_ambiguous_literal, is_sure, length, optimizers
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, is_stray, spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story


class PenaltyNotDivided(Rule):
    """One part of a loss is divided by the number of micro-batches, another part is not.

    ## What it does
    Finds a window of K micro-batches whose loss is divided by K, while a penalty (or another loss) that is added to it
    on each of them is not.

    ## Why is this bad
    The window averages the loss and sums the penalty: its weight is K times what is written there, and changes with
    the number of micro-batches.

    ## Example
    ```python
    loss = criterion(model(inputs), targets) / accumulation_steps
    loss = loss + weight * model.penalty()
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(model(inputs), targets) + weight * model.penalty()
    (loss / accumulation_steps).backward()
    ```

    ## Known problems
    A penalty that is added to one micro-batch of a window only may be meant as it is: reported as possible. One that
    is computed from the parameters alone (weight decay by hand) is not seen unless it has a backward of its own.

    ## References
    - [Automatic mixed precision examples: gradient penalty](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)
    """

    code = "AMP311"
    name = "penalty-not-divided"
    severity = "error"
    oracle = ("gradient",)
    hint = "add the penalty first, then divide the sum by the number of micro-batches"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first backward of each optimizer's first window that mixes what is divided with what is not."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if span.step is None or not accumulates(span):
                    continue
                buffer = span.step.before.buffer(optimizer)
                own = [c for c in buffer.contributions if not is_stray(trace, c, optimizer, span.step)]
                if not is_sure(buffer) or buffer.stepped or any(c.record < 0 for c in own):
                    continue
                divided = [c for c in own if c.unit.window == -1]
                whole = [c for c in own if c.unit.window == 0]
                if not divided or not whole or len(divided) + len(whole) < len(own):
                    continue
                micros = {c.micro for c in own}
                if len(micros) < 2:
                    continue
                each = all({c.micro for c in part} == micros for part in (divided, whole))
                yield Violation(
                    whole[0].record,
                    f"a part of the loss is not divided by {window.named}, unlike the rest: "
                    f"{name(trace, optimizer)} sees it {window.named} times as large",
                    story(
                        trace, *{c.record for c in (divided[0], divided[-1])} - {whole[0].record}, span.step
                    ),
                    # Once in a window it may be right; what is normalised otherwise may need no K.
                    certain=each
                    and not any(c.unit.other for c in own)
                    and not any(c.reduction == "sum" for c in whole)
                    and not is_ambiguous_literal(window),
                    predicts="K",
                )
                break
