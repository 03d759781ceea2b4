"""AMP312 window-never-completes."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import boundary_of, decides_precision, is_eventful, length, optimizers
from ampcheck.engines import gated_steps
from ampcheck.events import Backward, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace, Window
from ampcheck.windows import name, once_per_site, story


class WindowNeverCompletes(Rule):
    """The boundary test holds at most once, or never.

    ## What it does
    Finds accumulation whose step is not reached again: a counter that is never reset or never reaches K, or a
    remainder that `% K` cannot have.

    ## Why is this bad
    Gradients are summed for ever and the model does not train, without any error.

    ## Example
    ```python
    if i % accumulation_steps == accumulation_steps:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    Where an option of the program decides whether to train at all, the finding is *possible* at most.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP312"
    name = "window-never-completes"
    severity = "error"
    oracle = ("steps",)
    hint = "let the test hold once in every K micro-batches, and reset the counter if it is one"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the only step of an optimizer, or its first backward where it never steps."""
        window = trace.window
        if (
            window
            and trace.complete
            and length(trace) > 1
            and "step" in window.declared
            and not is_eventful(trace)
            and not any(gated_steps(trace))  # AMP314: the engine counts by itself
            # A run in which a test of the user's own comes out as it seldom does may skip every step.
            and not any(c.varying and not c.boundary for c in trace.choices)
        ):
            yield from once_per_site(trace, self._violations(trace, window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        steps = list(trace.of(Step))
        certain = all(c.varying or decides_precision(c) for c in trace.choices)
        for optimizer in optimizers(trace):
            backwards = _certain_backwards(trace, optimizer)
            if len({b.event.micro for b in backwards if isinstance(b.event, Backward)}) <= 2 * window.length:
                continue
            own = [record for record, step in steps if step.optimizer == optimizer]
            if not steps:
                yield Violation(
                    backwards[0].index,
                    f"{name(trace, optimizer)} never steps: its test for a window of {window.named} never holds",
                    story(trace, backwards[-1]),
                    certain,
                    predicts="0",
                )
            elif len(own) == 1 and (boundary := boundary_of(own[0])):
                after = [b for b in backwards if b.index > own[0].index]
                if len({b.micro for b in after}) >= window.length:
                    yield Violation(
                        own[0].index,
                        f"{name(trace, optimizer)} steps only once: `{boundary.text}` does not hold again",
                        story(trace, backwards[0], after[-1]),
                        certain,
                        predicts="1",
                    )


def _certain_backwards(trace: Trace, optimizer: str) -> list[Record]:
    """The backwards that certainly reach an optimizer; none where unseen code may have stepped it."""
    found = [
        r for r, event in trace.of(Backward) if optimizer in event.reaches and optimizer not in event.assumed
    ]
    return [] if any(r.after.buffer(optimizer).opaque for r in found) else found
