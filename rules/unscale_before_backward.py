"""AMP104 unscale-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import decides_precision
from ampcheck.events import Build, Step, Unscale
from ampcheck.gradients import READY
from ampcheck.precedence import late_backward
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    name,
    next_step,
    next_update,
    once_per_site,
    previous_step,
    story,
)


class UnscaleBeforeBackward(Rule):
    """Gradients are unscaled before there are any.

    ## What it does
    Finds `scaler.unscale_(optimizer)`, or the unscaling inside `scaler.step(optimizer)`, where the
    optimizer has no gradients yet and the backward of the same window follows.

    ## Why is this bad
    The scaler records that this optimizer is unscaled. Gradients that arrive later are not divided any more: the
    step runs on S·g, or torch raises because it has seen no gradient to check.

    ## Example
    ```python
    optimizer.zero_grad()
    scaler.unscale_(optimizer)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    ```

    ## Known problems
    An optimizer that is unscaled but gets no gradient in this iteration is not reported, nor is a raw step
    before any gradient exists (harmless). Gradients left over from the window before belong to AMP105 and AMP107.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_: only after all gradients of the
      step have been accumulated.
    - torch raises `No inf checks were recorded for this optimizer.` where gradients were None at that time.
    """

    code = "AMP104"
    name = "unscale-before-backward"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "move it behind the window's last backward"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the unscalings that come before the backward of their window."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, unscale in trace.of(Unscale):
            yield from self._violation(trace, record, unscale.scaler, unscale.optimizer, "`unscale_`")
        for record, step in trace.of(Step):
            if step.scaler is not None and record.refused and not step.closure:
                yield from self._violation(trace, record, step.scaler, step.optimizer, "the step")

    def _violation(
        self, trace: Trace, record: Record, scaler: str, optimizer: str, what: str
    ) -> Iterator[Violation]:
        backward = late_backward(trace, record, optimizer, scaler)
        roles = scaler, optimizer, *(trace.roles[optimizer].models if optimizer in trace.roles else ())
        last = previous_step(trace, record.index, optimizer) or _last_built(trace, record, roles)
        if (
            backward is None
            or record.before.phase(scaler, optimizer) != READY
            or escapes_between(trace, last.index if last else -1, backward.index, *roles)
        ):
            return
        yield Violation(
            record.index,
            f"{what} of {name(trace, optimizer)} runs before the backward of its window: nothing is unscaled, "
            "and what follows keeps the loss scale; expected after the last backward",
            story(
                trace,
                backward,
                next_step(trace, record.index, optimizer),
                next_update(trace, record.index, scaler),
            ),
            certain=are_known(trace, scaler)
            and optimizer not in getattr(backward.event, "assumed", ())
            and not _may_wait(record, backward),
            predicts="S",
        )


def _may_wait(record: Record, backward: Record) -> bool:
    """Whether a test that the backward does not depend on may keep the first window out (``if has_gradients:``)."""
    shared = {(g.text, g.holds) for g in backward.guards}
    return any(
        not g.boundary and not decides_precision(g) for g in record.guards if (g.text, g.holds) not in shared
    )


def _last_built(trace: Trace, record: Record, roles: tuple[str, ...]) -> Record | None:
    """Where the last of some roles was built before a record."""
    builds = (r for r, build in trace.of(Build) if r.index < record.index and build.role in roles)
    return max(builds, key=lambda r: r.index, default=None)
