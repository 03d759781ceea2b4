"""AMP308 window-off-by-one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ampcheck.boundaries import boundary_of, is_sure, length, optimizers
from ampcheck.events import Jump
from ampcheck.rule import Rule, Violation
from ampcheck.spans import accumulates, own_micros, spans
from ampcheck.trace import Trace, Window
from ampcheck.windows import name, once_per_site, story


class WindowOffByOne(Rule):
    """The boundary test completes a first window of another size.

    ## What it does
    Finds a step whose first window has fewer micro-batches than the following ones, as `i % K == 0` with `i` from 0
    makes it: 1, K, K ... or one more, where the test leaves out `i == 0`.

    ## Why is this bad
    The first update uses one micro-batch (or K - 1, or K + 1) divided by K, and all later windows are shifted, so that
    an epoch's last micro-batches are left over although its length is a multiple of K.

    ## Example
    ```python
    for i, (inputs, targets) in enumerate(loader):
        (criterion(model(inputs), targets) / accumulation_steps).backward()
        if i % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
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
    A boundary that resumes in the middle of a window looks the same; a run that skipped micro-batches is not judged.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP308"
    name = "window-off-by-one"
    severity = "warning"
    oracle = ("windows", "gradient")
    hint = "test `(i + 1) % K == 0` when `i` counts from 0, `i % K == 0` when it counts from 1"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the step whose first window differs from the ones after it."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            done = list(islice((s for s in spans(trace, optimizer) if s.step and s.micros), 2))
            if len(done) < 2 or not accumulates(done[1]):
                continue
            first, second = done[0], done[1]
            if first.step is None or second.step is None or first.step.event.site != second.step.event.site:
                continue
            size = len(own_micros(trace, first))
            other = size != window.length and size in (1, window.length - 1, window.length + 1)
            whole = len(own_micros(trace, second)) == window.length and second.rounds == first.rounds
            boundary = boundary_of(first.step)
            if not other or not whole or boundary is None or not is_sure(first.step.before.buffer(optimizer)):
                continue
            if any(isinstance(r.event, Jump) for r in first.records):
                continue
            more = f"{window.named} + 1 micro-batches"
            less = "1 micro-batch" if size == 1 else f"{window.named} - 1 micro-batches"
            count = more if size > window.length else less
            yield Violation(
                first.step.index,
                f"`{boundary.text}` lets {name(trace, optimizer)} step first after {count}, "
                f"then after {window.named}",
                story(trace, first.backwards[0][0], second.backwards[-1][0], second.step),
                certain=not _counts_since_step(boundary.text),
                predicts=f"{size}, K, K",
                site=boundary.site,
            )


def _counts_since_step(test: str) -> bool:
    """``count - last_step >= K``: one window is another at most, where a run resumes; the next is whole again."""
    return "%" not in test and re.search(r"[<>]", test) is not None
