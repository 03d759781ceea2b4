"""AMP318 mean-of-unequal-micro-batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ampcheck.boundaries import is_sure, length, optimizers
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, is_stray, spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story

COUNT = re.compile(
    r"mask|tok|valid|length|(^|_)lens?($|_)|count|non_?pad|num_(items|frames|samples)|weight|\.sum\(",
    re.IGNORECASE,
)


class MeanOfUnequalMicroBatches(Rule):
    """The means of micro-batches with different numbers of tokens are averaged as if they were equal.

    ## What it does
    Finds a loss that each micro-batch divides by its own number of tokens (or by the sum of its mask), and then by K.
    Off by default: it is on when it is selected.

    ## Why is this bad
    The average of averages is the average only where all micro-batches are equally large. Sizes 5, 5 and 2 give a
    relative error of 21 %, and a token in a short micro-batch weighs more than one in a long one.

    ## Example
    ```python
    loss = (losses * mask).sum() / mask.sum()
    (loss / accumulation_steps).backward()
    ```

    ## Use instead
    ```python
    tokens = sum(mask.sum() for _, mask in window)
    for inputs, mask in window:
        ((model(inputs) * mask).sum() / tokens).backward()
    ```

    ## Known problems
    Whether sizes really differ is not known to the code; packed sequences do not.

    ## References
    - [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation)
    """

    code = "AMP318"
    name = "mean-of-unequal-micro-batches"
    severity = "note"
    unobservable = "how many tokens each micro-batch has is not in the code"
    opt_in = True
    hint = "divide the sum over each micro-batch by the number of tokens in the whole window"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first backward of each optimizer's first window of such means."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if (
                    span.step is None
                    or not accumulates(span)
                    or not is_sure(span.step.before.buffer(optimizer))
                ):
                    continue
                buffer = span.step.before.buffer(optimizer)
                own = [c for c in buffer.contributions if not is_stray(trace, c, optimizer, span.step)]
                means = [c for c in own if c.unit.window == -1 and any(map(COUNT.search, c.unit.other))]
                if not means or means[0].record < 0:
                    continue
                divisor = max((text for text in means[0].unit.other if COUNT.search(text)), key=len)
                yield Violation(
                    means[0].record,
                    f"each micro-batch is divided by its own `{divisor}` and by {window.named}: for "
                    f"{name(trace, optimizer)} those with few of them count for more",
                    story(trace, span.step),
                )
                break
