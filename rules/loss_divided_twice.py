"""AMP306 loss-divided-twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ampcheck.boundaries import is_ambiguous_literal, length
from ampcheck.events import Backward, Edit
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace, Window
from ampcheck.windows import are_known, name, next_step, once_per_site, story

# Factors that may make up for a division; the weight of a loss does not.
_COUNTS = re.compile(
    r"num|count|len|size|token|item|batch|step|total|accum|micro|world|sum|mean|factor|scale|reduc|norm",
    re.IGNORECASE,
)


class LossDividedTwice(Rule):
    """The gradients are divided by the window's length twice.

    ## What it does
    Finds a second division by K: of a loss that is divided already, of the gradients of such a loss, or by an engine
    that divides for itself (Accelerate's `backward`).

    ## Why is this bad
    The update is K times too small, and nothing says so: 0.667 for 2.0 with K = 3.

    ## Example
    ```python
    loss = criterion(model(inputs), targets) / accumulation_steps
    (loss / accumulation_steps).backward()
    ```

    ## Use instead
    ```python
    loss = criterion(model(inputs), targets)
    (loss / accumulation_steps).backward()
    ```

    ## Known problems
    A division of a value that is only logged is not meant, and not reported.

    ## References
    - [Performing gradient accumulation with Accelerate](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP306"
    name = "loss-divided-twice"
    severity = "error"
    oracle = ("gradient",)
    hint = "divide by the number of micro-batches once"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the backwards and the edits of gradients that complete a second division."""
        if trace.window and length(trace) > 1:
            yield from once_per_site(trace, self._losses(trace, trace.window))
            yield from once_per_site(trace, self._gradients(trace, trace.window))

    def _losses(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for record, backward in trace.of(Backward):
            twice = [unit for unit in backward.loss.parts if unit.window <= -2]
            if twice:
                yield Violation(
                    record.index,
                    f"the loss is divided by {window.named} twice before this backward",
                    story(trace, *(next_step(trace, record.index, o) for o in backward.reaches)),
                    certain=not is_ambiguous_literal(window)
                    and any(not any(map(_COUNTS.search, unit.other)) for unit in twice),
                    predicts="1/K",
                )

    def _gradients(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for record, edit in trace.of(Edit):
            if edit.effect != "multiply" or edit.factor.window >= 0:
                continue
            for owner in edit.owners:
                buffer = record.before.buffer(owner)
                divided = [c for c in buffer.contributions if c.unit.window == -1]
                if not divided or buffer.opaque or len(divided) < len(buffer.contributions):
                    continue
                yield Violation(
                    record.index,
                    f"the gradients of {name(trace, owner)} are divided by {window.named}, "
                    "but their loss has been already",
                    story(trace, divided[0].record, next_step(trace, record.index, owner)),
                    certain=are_known(trace, owner)
                    and not is_ambiguous_literal(window)
                    and not any(c.assumed or c.unit.other for c in divided),
                    predicts="1/K",
                )
