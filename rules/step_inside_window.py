"""AMP301 step-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import (
    is_ambiguous_literal,
    is_sure,
    names_accumulation,
    optimizers,
    steps_inside_window,
)
from ampcheck.precedence import entered_twice
from ampcheck.rule import Rule, Violation
from ampcheck.spans import spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story

_GATES = {"zero": "zero_grad", "clip": "the clip", "schedule": "the schedule"}


class StepInsideWindow(Rule):
    """The optimizer steps on every micro-batch of a declared accumulation window.

    ## What it does
    Finds a step on each micro-batch where the code otherwise accumulates: it divides the loss by K, or zeroes, clips
    or schedules every K micro-batches only.

    ## Why is this bad
    K small updates replace one large one: momentum, Adam's moments and weight decay advance K times as fast, each
    update comes from one micro-batch, and the loss is divided for nothing. With plain SGD and a linear loss the final
    parameters are the same, which is why tests miss it.

    ## Example
    ```python
    (loss / accumulation_steps).backward()
    optimizer.step()
    optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    Where a division is the only sign of a window and the name of its divisor says nothing of accumulation, the finding
    is *possible* at most.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP301"
    name = "step-inside-window"
    severity = "error"
    oracle = ("steps", "windows", "gradient")
    hint = "step (and update the scaler) only on the last micro-batch of each window"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the step of each optimizer that ignores the window declared for it."""
        if trace.window is None or not trace.complete or any(entered_twice(trace)):
            return
        yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            evidence = steps_inside_window(trace, optimizer)
            if not evidence or (evidence == ("division",) and is_ambiguous_literal(window)):
                continue
            done = [s for s in spans(trace, optimizer) if s.step and s.micros]
            step = done[0].step
            if step is None or not is_sure(step.before.buffer(optimizer)):
                continue
            signs = ["the loss is divided by it"] if "division" in evidence else []
            signs += [f"{_GATES[gate]} waits for it" for gate in evidence if gate != "division"]
            yield Violation(
                step.index,
                f"{name(trace, optimizer)} steps on every micro-batch, although the window is {window.named}: "
                + ", ".join(signs),
                story(trace, done[0].backwards[0][0], done[1].backwards[0][0], done[1].step),
                certain=_is_certain(evidence, window),
                predicts="K",
            )


def _is_certain(evidence: tuple[str, ...], window: Window) -> bool:
    """Whether no other reading of the code is left: gradients kept for K steps, or a K that says what it is.

    K alone may be a number of tasks (division) or a schedule's own interval.
    """
    if "zero" in evidence or names_accumulation(window):
        return True
    return "division" in evidence and len(evidence) > 1 and not is_ambiguous_literal(window)
