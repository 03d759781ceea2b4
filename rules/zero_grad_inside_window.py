"""AMP302 zero-grad-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import (
    first_of_each,
    is_ambiguous_literal,
    is_conditional,
    length,
    next_touch,
    optimizers,
)
from ampcheck.events import Backward, ZeroGrad
from ampcheck.gradients import Contribution
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, feeds_step, is_stray, round_of, spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import fresh, name, once_per_site


class ZeroGradInsideWindow(Rule):
    """Gradients are zeroed between the micro-batches of an accumulation window.

    ## What it does
    Finds a `zero_grad` that wipes the micro-batches summed so far, with more of the window to come.

    ## Why is this bad
    Only the last micro-batch reaches the optimizer, divided by K: the batch is K times smaller than it is meant to
    be, and the work of the other micro-batches is lost.

    ## Example
    ```python
    for i, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        (criterion(model(inputs), targets) / accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
    ```

    ## Use instead
    ```python
    for i, (inputs, targets) in enumerate(loader):
        (criterion(model(inputs), targets) / accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Known problems
    Dropping the window on purpose (out of memory, a loss that is not finite) is recognised by its test. Zeroing at
    the end of an epoch drops a leftover window and is not meant here.

    ## References
    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP302"
    name = "zero-grad-inside-window"
    severity = "error"
    oracle = ("gradient",)
    hint = "zero the gradients once per window, after the step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each zeroing of an open window that goes on afterwards and is stepped on."""
        if length(trace) > 1 and trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                if not accumulates(span) or span.step is None:
                    continue
                for record in span.records:
                    if not isinstance(record.event, ZeroGrad) or optimizer not in record.event.owners:
                        continue
                    wiped = _wiped(trace, record, optimizer)
                    if not wiped or is_conditional(trace, record, optimizer):
                        continue
                    yield Violation(
                        record.index,
                        f"the gradients of {name(trace, optimizer)} are zeroed inside its window of "
                        f"{trace.window.named if trace.window else 'K'} micro-batches",
                        tuple(
                            i
                            for i in first_of_each(trace, optimizer, wiped[0].record, span.step.index)
                            if i != record.index
                        ),
                        # ``if i % 2 == 0: step`` alone may be meant: every second batch is only looked at.
                        certain=not (
                            trace.window
                            and is_ambiguous_literal(trace.window)
                            and trace.window.declared <= {"step", "update"}
                        ),
                        predicts="g_K / K",
                    )


def _wiped(trace: Trace, record: Record, optimizer: str) -> tuple[Contribution, ...]:
    """What is lost of an open window; empty where the window was full, left over or not this optimizer's."""
    buffer = record.before.buffer(optimizer)
    backward = next_touch(trace, record.index, optimizer)
    if buffer.opaque or backward is None or not isinstance(backward.event, Backward):
        return ()
    lost = tuple(
        c
        for c in fresh(trace, record, optimizer)
        if not c.assumed and c.record >= 0 and not is_stray(trace, c, optimizer, record)
    )
    micros = {c.micro for c in lost}
    if not any(feeds_step(trace, c.record, optimizer) for c in lost):
        return ()
    if not micros or backward.event.micro in micros or len(micros) >= length(trace):
        return ()
    return lost if any(round_of(trace.records[c.record]) == round_of(backward) for c in lost) else ()
