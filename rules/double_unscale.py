"""AMP106 double-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Edit, Site, Step, Unscale, Update
from ampcheck.gradients import READY, UNSCALED
from ampcheck.precedence import step_beyond_update
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    exponents,
    fresh,
    name,
    next_backward,
    once_per_site,
    origin,
    repeats_statement,
    same_micro_batch,
    story,
)


class DoubleUnscale(Rule):
    """Gradients are divided by the loss scale twice.

    ## What it does
    Finds a second `unscale_` of an optimizer with no backward and no `update` since the first; `update` between
    `unscale_` and `step`; and a division by `get_scale()` that `unscale_` or `scaler.step` repeats.

    ## Why is this bad
    torch raises at the second `unscale_`, unless `update` has made it forget the first: then the step unscales
    once more, without a word, and sees g / S.

    ## Example
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.update()
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    One statement that runs twice in a micro-batch (a loop over optimizers, a hook per parameter) is reported as
    possible only. With a backward between the two, see AMP105; with the step of another optimizer before the
    `update`, see AMP110.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_: once per optimizer and step.
    - torch raises `unscale_() has already been called on this optimizer since the last update().`
    """

    code = "AMP106"
    name = "double-unscale"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "unscale once: scaler.step does it where unscale_ has not"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the second divisions by the loss scale."""
        # One update between `unscale_` and the steps of several optimizers is one mistake.
        told: set[Site] = set()
        for violation in once_per_site(trace, self._violations(trace)):
            events = (trace.records[i].event for i in violation.steps)
            updates = {event.site for event in events if isinstance(event, Update)}
            if not updates or not updates <= told:
                yield violation
            told |= updates

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record in trace.records:
            match record.event:
                case Unscale(scaler=scaler, optimizer=optimizer) if record.refused:
                    yield from self._refused(trace, record, scaler, optimizer)
                case Unscale(scaler=scaler, optimizer=optimizer):
                    yield from self._divided(trace, record, scaler, optimizer)
                case Step(scaler=str(scaler), optimizer=optimizer, closure=False) if not record.refused:
                    yield from self._divided(trace, record, scaler, optimizer)

    def _refused(self, trace: Trace, record: Record, scaler: str, optimizer: str) -> Iterator[Violation]:
        """A second `unscale_` that torch refuses."""
        first = _last_unscale(trace, record, scaler, optimizer)
        if first is None or record.before.phase(scaler, optimizer) != UNSCALED:
            return
        if optimizer not in record.before.reached:
            return  # its backwards are elsewhere, and one of them may lie between
        backward = next_backward(trace, first.index, optimizer)
        if backward is not None and backward.index < record.index:
            return
        if escapes_between(trace, first.index, record.index, scaler, optimizer):
            return
        yield Violation(
            record.index,
            f"gradients of {name(trace, optimizer)} are unscaled a second time before "
            f"{name(trace, scaler)} is updated: torch raises, expected one `unscale_` per step",
            story(trace, *(c.record for c in record.before.buffer(optimizer).contributions), first),
            certain=are_known(trace, scaler) and not repeats_statement(first, record),
        )

    def _divided(self, trace: Trace, record: Record, scaler: str, optimizer: str) -> Iterator[Violation]:
        """A division that torch performs on gradients that do not carry the scale any more."""
        buffer, held = record.before.buffer(optimizer), fresh(trace, record, optimizer)
        if record.before.phase(scaler, optimizer) != READY or buffer.opaque or len(held) == 0:
            return
        origins = [origin(trace, buffer, c) for c in held]
        left = exponents(held, scaler)
        if not all(o and o.scaled_by(scaler) > 0 for o in origins) or len(left) > 1 or max(left) > 0:
            return
        start = max(c.record for c in held)
        between = trace.between(start, record.index)
        if escapes_between(trace, min(c.record for c in held), record.index, scaler, optimizer):
            return
        if any(isinstance(r.event, Update) and step_beyond_update(trace, r) for r in between):
            return
        causes = [r for r in between if _divides(r, scaler, optimizer)]
        if not all(same_micro_batch(r, record) or isinstance(r.event, Edit) for r in causes):
            return
        updates = [r for r in between if isinstance(r.event, Update) and r.event.scaler == scaler]
        if not causes:
            return
        by_hand = isinstance(causes[0].event, Edit)
        how = "by hand" if by_hand else "by `unscale_`, which `update` made the scaler forget"
        yield Violation(
            record.index,
            f"gradients of {name(trace, optimizer)} are divided by the loss scale a second time: they were "
            f"already divided {how}; the step sees g / S, expected g",
            story(trace, *(c.record for c in held), *causes, *(() if by_hand else updates)),
            certain=are_known(trace, scaler) and not any(c.assumed for c in held),
            predicts="1/S",
        )


def _last_unscale(trace: Trace, record: Record, scaler: str, optimizer: str) -> Record | None:
    """The `unscale_` that torch remembers at a record."""
    return next(
        (
            r
            for r in reversed(trace.records[: record.index])
            if isinstance(r.event, Unscale)
            and (r.event.scaler, r.event.optimizer) == (scaler, optimizer)
            and not r.refused
        ),
        None,
    )


def _divides(record: Record, scaler: str, optimizer: str) -> bool:
    match record.event:
        case Unscale():
            return (record.event.scaler, record.event.optimizer) == (scaler, optimizer)
        case Edit(effect="multiply", owners=owners, factor=factor):
            return optimizer in owners and factor.scaled_by(scaler) < 0
        case _:
            return False
