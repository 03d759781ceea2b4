"""AMP304 missing-zero-grad."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_conditional, is_sure, optimizers, steps_inside_window
from ampcheck.events import EngineCall, Step, ZeroGrad
from ampcheck.rule import Rule, Violation
from ampcheck.skips import succeeded
from ampcheck.spans import Span, spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, once_per_site, story


class MissingZeroGrad(Rule):
    """Nothing zeroes the gradients between two steps.

    ## What it does
    Finds a step whose gradients still contain those that the step before it has used.

    ## Why is this bad
    Every update repeats all earlier ones: gradients 1, 2, 3 become 1, 3, 6. Under a GradScaler the rest is already
    unscaled and thus only 1/S of the new gradients, so that a large scale hides it (3.00003 for 3 at
    S = 65536) until an overflow: the infinity stays, and every later step is skipped.

    ## Example
    ```python
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    ```

    ## Known problems
    Optimizers known only by their names are left alone: a wrapper may zero inside `step`. So are closures (LBFGS).

    ## References
    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Optimizing model parameters](https://docs.pytorch.org/tutorials/beginner/basics/optimization_tutorial.html)
    """

    code = "AMP304"
    name = "missing-zero-grad"
    severity = "error"
    oracle = ("gradient", "steps")
    hint = "call `optimizer.zero_grad()` once per window, after the step or before the first backward"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the steps that use gradients a second time."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            # A wrapper that is known by its name only may zero inside its step.
            if not are_known(trace, optimizer) or _zeroes_at_times(trace, optimizer):
                continue
            previous = None
            for span in spans(trace, optimizer):
                if previous is not None and span.step is not None:
                    buffer = span.step.before.buffer(optimizer)
                    used = [c for c in buffer.contributions if c.record < previous.index]
                    added = [c for c in buffer.contributions if c.record > previous.index]
                    if used and added and is_sure(buffer) and not _is_another_phase(previous, span.step):
                        yield Violation(
                            span.step.index,
                            f"{name(trace, optimizer)} steps on gradients that its last step has already used: "
                            "nothing zeroes them",
                            story(
                                trace, used[-1].record, previous, _ignored(span, optimizer), added[0].record
                            ),
                            certain=not _may_zero_on_success(trace, optimizer),
                        )
                previous = span.step


def _ignored(span: Span, optimizer: str) -> Record | None:
    """A `zero_grad` of the span that an engine ignores: Accelerate's, inside a window."""
    for record in span.records:
        call = record.event
        if isinstance(call, EngineCall) and call.call == "zero_grad ignored" and optimizer in call.roles:
            return record
    return None


def _is_another_phase(one: Record, other: Record) -> bool:
    """Whether two steps belong to different loops of different functions: a trial before the training proper.

    What the one leaves to the other is left once, not at each step.
    """
    return one.event.site != other.event.site and one.calls != other.calls


def _zeroes_at_times(trace: Trace, optimizer: str) -> bool:
    """Whether a zeroing exists that waits for something: for a window that the steps ignore, or for success.

    Then the waiting is the mistake, and the rules for that report it.
    """
    if "zero" in steps_inside_window(trace, optimizer):
        return True
    return any(
        optimizer in zero.owners and is_conditional(trace, r, optimizer) for r, zero in trace.of(ZeroGrad)
    )


def _may_zero_on_success(trace: Trace, optimizer: str) -> bool:
    """Whether a run in which every step is skipped cannot show a zeroing that waits for success: others tell."""
    before_steps = {g.text for r, step in trace.of(Step) if step.optimizer == optimizer for g in r.guards}
    tested = [g for g in trace.choices if (g.skip or g.finite) and g.text not in before_steps]
    return any(not succeeded(trace, g) for g in tested)
