"""AMP111 update-without-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward, Escape, Step, Unscale, Update
from ampcheck.precedence import updates_idle_micro_batch
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, once_per_site, previous_update, same_micro_batch, story


class UpdateWithoutStep(Rule):
    """The scaler is updated although nothing has been unscaled or stepped since its last update.

    ## What it does
    Finds `scaler.update()` that comes too early (the step follows), a second time, or on a path without a step.

    ## Why is this bad
    `update` judges the scale by what `unscale_` and `step` have found. With nothing found since the last update,
    torch raises.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.update()
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    `scaler.update(new_scale)` is legal at any time. On the micro-batches of a window that do not step, see AMP109;
    after a raw step of scaled gradients, AMP113. Nothing is said where optimizers or the scaler were handed to unseen
    code. Where no step is to be seen at all the finding is possible only: it may hide in a call.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update
    - torch raises `No inf checks were recorded prior to update.`
    """

    code = "AMP111"
    name = "update-without-step"
    severity = "error"
    oracle = ("exception",)
    hint = "call scaler.update() once, after scaler.step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the updates that torch refuses."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        updates = [(r, u) for r, u in trace.of(Update) if r.refused and not u.explicit]
        idle = {r.event.site for r, _ in updates if trace.window and updates_idle_micro_batch(trace, r)}
        for record, update in updates:
            if record.event.site in idle or not _is_judged(trace, record, update.scaler):
                continue
            scaled = _scaled_backwards(trace, update.scaler)
            last = previous_update(trace, record.index, update.scaler)
            backward = next((r for r in reversed(scaled) if r.index < record.index), None)
            step = next(
                (r for r in _scaled_steps(trace, update.scaler, record.index) if same_micro_batch(r, record)),
                None,
            )
            if step and isinstance(step.event, Step) and step.before.buffer(step.event.optimizer).is_empty:
                continue  # whoever zeroed the gradients before their step is to blame
            again = last if last and (backward is None or last.index > backward.index) else None
            why = "a second time" if again else "before its step" if step else "without a step"
            yield Violation(
                record.index,
                f"{name(trace, update.scaler)} is updated {why}: nothing has been unscaled or stepped since the "
                "last update and torch raises; expected once, after the step",
                story(trace, backward, again, None if again else step),
                # A step that is nowhere to be seen may hide in a call that is not understood.
                certain=are_known(trace, update.scaler) and _is_used(trace, update.scaler),
            )


def _scaled_backwards(trace: Trace, scaler: str) -> list[Record]:
    return [r for r, b in trace.of(Backward) if any(part.scaled_by(scaler) for part in b.loss.parts)]


def _scaled_steps(trace: Trace, scaler: str, after: int = -1) -> list[Record]:
    return [r for r, s in trace.of(Step) if s.scaler == scaler and r.index > after]


def _is_judged(trace: Trace, record: Record, scaler: str) -> bool:
    """Whether all steps since the last update are visible, and none of them is the real mistake."""
    last = previous_update(trace, record.index, scaler)
    since = trace.between(last.index if last else -1, record.index)
    roles = {scaler, *(role.id for role in trace.roles_of("optimizer"))}
    if any(isinstance(r.event, Escape) and roles & set(r.event.roles) for r in since):
        return False
    if any(r.refused for r in _scaled_steps(trace, scaler, last.index if last else -1) if r in since):
        return False
    if _is_used(trace, scaler):
        return True
    return bool(trace.roles_of("optimizer")) and not any(trace.of(Step)) and not any(trace.of(Escape))


def _is_used(trace: Trace, scaler: str) -> bool:
    """Whether the scaler unscales or steps anything that can be seen."""
    return bool(_scaled_steps(trace, scaler)) or any(u.scaler == scaler for _, u in trace.of(Unscale))
