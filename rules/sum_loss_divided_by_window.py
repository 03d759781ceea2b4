"""AMP310 sum-loss-divided-by-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_ambiguous_literal, is_sure, length, optimizers
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, is_stray, spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story


class SumLossDividedByWindow(Rule):
    """A loss that is a sum over its items is divided by the number of micro-batches only.

    ## What it does
    Finds a window of K micro-batches of a sum-reduced loss (`reduction="sum"`, `.sum()`) that is divided by K and by
    nothing else.

    ## Why is this bad
    K turns a sum of K averages into the average. A micro-batch's sum is b times its average, b being its number of
    items, so the gradient is b times that of the average over the whole batch, follows every change of the batch size,
    and weighs a short last micro-batch less. The right divisor is the number of items in the whole window.

    ## Example
    ```python
    loss = F.mse_loss(model(inputs), targets, reduction="sum") / accumulation_steps
    loss.backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    loss = F.mse_loss(model(inputs), targets) / accumulation_steps
    loss.backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```
    Or divide the sum by the number of items of the window.

    ## Known problems
    A learning rate chosen for summed losses makes up for it, as long as the batch size stays.

    ## References
    - [torch.nn.MSELoss: reduction](https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html)
    - [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation)
    """

    code = "AMP310"
    name = "sum-loss-divided-by-window"
    severity = "warning"
    oracle = ("gradient",)
    contests = ("sum",)
    hint = "take the mean, or divide the sum by the number of items of the whole window instead of K"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first backward of each optimizer's first window of sums over K."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if span.step is None or not accumulates(span):
                    continue
                buffer = span.step.before.buffer(optimizer)
                own = [c for c in buffer.contributions if not is_stray(trace, c, optimizer, span.step)]
                if not own or not is_sure(buffer) or any(c.record < 0 for c in own):
                    continue
                if any(c.reduction != "sum" or c.unit.window != -1 or c.unit.other for c in own):
                    continue
                yield Violation(
                    own[0].record,
                    f"a loss that is the sum over its micro-batch is divided by {window.named} only: "
                    f"{name(trace, optimizer)} sees the average gradient times the micro-batch's size",
                    story(trace, span.step),
                    certain=not is_ambiguous_literal(window),
                    predicts="b",
                )
                break
