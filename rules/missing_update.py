"""AMP112 missing-update."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward, Jump, Step, Unscale, Update
from ampcheck.gradients import READY
from ampcheck.precedence import added_to_unscaled, steps_within_window
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    fresh,
    name,
    next_backward,
    next_zero,
    once_per_site,
    previous_backward,
    previous_update,
    same_micro_batch,
    story,
)


class MissingUpdate(Rule):
    """The next window is reached without `scaler.update()`.

    ## What it does
    Finds paths from `unscale_` or `scaler.step` to the next `unscale_` or `step` of the same optimizer that pass no
    `update`: it is never called, not under this condition, or a `continue`, `return` or `break` jumps over it.

    ## Why is this bad
    The scaler still remembers the last window. torch raises at the next `unscale_` or `step`; where only `unscale_`
    ran, the next step takes the new gradients for unscaled and sees S·g.

    ## Example
    ```python
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not torch.isfinite(norm):
        continue
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # skips by itself when a gradient is not finite
    scaler.update()
    ```

    ## Known problems
    Nothing is said where the run ends first, where the scaler is built anew, or where it was handed to unseen code.
    A step on every micro-batch whose update waits for the boundary is AMP108.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update: last, in every iteration.
    - torch raises `step() has already been called since the last update().` or its like for `unscale_`.
    """

    code = "AMP112"
    name = "missing-update"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "call scaler.update() on every path, after the last step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the places after which an update is missing."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record in trace.records:
            match record.event:
                case (
                    Unscale(scaler=scaler, optimizer=optimizer)
                    | Step(scaler=str(scaler), optimizer=optimizer)
                ):
                    yield from self._violation(trace, record, scaler, optimizer)

    def _violation(self, trace: Trace, record: Record, scaler: str, optimizer: str) -> Iterator[Violation]:
        if record.before.phase(scaler, optimizer) == READY:
            return
        used = _last_use(trace, record, scaler, optimizer)
        backward = next_backward(trace, used.index, optimizer) if used else None
        if used is None or backward is None or backward.index > record.index:
            return
        if _belongs_elsewhere(trace, used, backward, record):
            return
        jump = next(
            (
                r
                for r in trace.between(used.index, backward.index)
                if isinstance(r.event, Jump) and same_micro_batch(r, used)
            ),
            None,
        )
        uses = [used, *_uses(trace, used.index, record.index, scaler, used)]
        steps = [r for r in uses if isinstance(r.event, Step)]
        place = (steps or uses)[-1]
        reason = f"{name(trace, scaler)} is not updated after the step of {name(trace, optimizer)}"
        if not steps:
            reason = f"{name(trace, scaler)} is not updated after `unscale_` of {name(trace, optimizer)}"
        if (
            jump is not None
            and isinstance(jump.event, Jump)
            and any(u.scaler == scaler for _, u in trace.of(Update))
        ):
            place = jump
            reason = f"this `{jump.event.kind}` jumps over the update of {name(trace, scaler)}"
        raises = (
            "torch raises in the next window"
            if record.refused
            else "the next step is not unscaled and sees S·g"
        )
        yield Violation(
            place.index,
            f"{reason}: {raises}, expected an update on every path",
            story(trace, previous_backward(trace, used.index, optimizer), *uses, jump, backward, record),
            # An optimizer known by name alone that steps nowhere in the run steps where it cannot be seen.
            certain=(trace.roles[optimizer].known or any(s.optimizer == optimizer for _, s in trace.of(Step)))
            and are_known(trace, scaler)
            and isinstance(backward.event, Backward)
            and optimizer not in backward.event.assumed,
        )


def _uses(trace: Trace, start: int, stop: int, scaler: str, like: Record) -> list[Record]:
    """The accepted `unscale_` and steps of a scaler between two indices, in the micro-batch of a record."""
    return [
        r
        for r in trace.between(start, stop)
        if isinstance(r.event, Unscale | Step)
        and r.event.scaler == scaler
        and not r.refused
        and same_micro_batch(r, like)
    ]


def _last_use(trace: Trace, record: Record, scaler: str, optimizer: str) -> Record | None:
    """The `unscale_` or step that the scaler still remembers of an optimizer at a record."""
    return next(
        (
            r
            for r in reversed(trace.records[: record.index])
            if isinstance(r.event, Unscale | Step)
            and (r.event.scaler, r.event.optimizer) == (scaler, optimizer)
            and not r.refused
        ),
        None,
    )


def _belongs_elsewhere(trace: Trace, used: Record, backward: Record, again: Record) -> bool:
    """Whether the path is right, or its mistake is another one: a premature, late or repeated call."""
    event = used.event
    if not isinstance(event, Unscale | Step) or event.scaler is None:
        return True
    if not isinstance(backward.event, Backward) or not any(
        part.scaled_by(event.scaler) > 0 for part in backward.event.loss.parts
    ):
        return True  # an unscaled loss added to unscaled gradients is right
    if escapes_between(trace, used.index, again.index, event.scaler, event.optimizer):
        return True
    zero = next_zero(trace, used.index, event.optimizer)
    if same_micro_batch(used, again) and (zero is None or zero.index > backward.index):
        return True  # still the same window: a premature step or unscale
    if isinstance(event, Unscale):
        return not fresh(trace, used, event.optimizer) or any(
            # Premature once is premature always: in an epoch's tail it only looks like the last of its window.
            added_to_unscaled(trace, r) is not None
            for r, _ in trace.of(Unscale)
            if r.event.site == event.site
        )
    last = previous_update(trace, used.index, event.scaler)
    source = previous_backward(trace, used.index, event.optimizer)
    too_early = last is not None and source is not None and last.index > source.index
    return too_early or steps_within_window(trace, used)
