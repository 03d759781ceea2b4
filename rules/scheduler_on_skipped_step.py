"""AMP503 scheduler-on-skipped-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_within, optimizers, per_micro_schedule
from ampcheck.events import ResultTest, ScheduleStep, Step
from ampcheck.rule import Rule, Violation
from ampcheck.skips import asks_for_skip
from ampcheck.trace import Guard, Record, Trace
from ampcheck.windows import are_known, name, once_per_site, previous_backward, previous_step, story


class SchedulerOnSkippedStep(Rule):
    """The scheduler advances whether or not the scaler skipped the step.

    ## What it does
    Finds a scheduler that follows `scaler.step` in the same iteration with no test of whether the step was skipped.
    Stepped there, it counts updates, whatever its class; where the class is unknown the finding is possible only.

    ## Why is this bad
    Each overflow advances the schedule without an update, several times in a row at the start of training, when the
    scale is still too high. If the very first step is skipped, torch also warns about the order.

    ## Example
    ```python
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    ```

    ## Use instead
    ```python
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scale <= scaler.get_scale():
        scheduler.step()
    ```

    ## Known problems
    A few skipped steps in a long schedule do little harm; schedules by epoch or metric are not meant.

    ## References
    - [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler)
    """

    code = "AMP503"
    name = "scheduler-on-skipped-step"
    severity = "warning"
    oracle = ("schedule",)
    hint = "advance the scheduler only if the scale has not dropped in `scaler.update()`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each per-update schedule that advances after a scaler's step without a test."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, schedule in trace.of(ScheduleStep):
            if schedule.counts not in ("updates", "unknown") or any(map(_may_tell, record.guards)):
                continue
            role = trace.roles.get(schedule.scheduler)
            # A torch class without a count of its own (StepLR) counts what it is stepped with: here, updates.
            counted = schedule.counts == "updates" or (role is not None and role.detail != "")
            known = optimizers(trace)
            owners = [o for o in schedule.optimizers or known if o in known]
            if len(owners) != 1 and not schedule.optimizers:
                continue
            for optimizer in owners:
                step = _step_of(trace, record, optimizer)
                if step is None or per_micro_schedule(trace, schedule.scheduler, optimizer):
                    continue
                # Whoever asks the step itself means to guard the schedule: that the answer is None is the mistake.
                if any(isinstance(r.event, ResultTest) for r in trace.between(step.index, record.index)):
                    continue
                yield Violation(
                    record.index,
                    f"{name(trace, schedule.scheduler)} advances even if the scaler skipped the step of "
                    f"{name(trace, optimizer)}",
                    story(trace, previous_backward(trace, step.index, optimizer), step),
                    certain=counted and bool(schedule.optimizers) and are_known(trace, schedule.scheduler),
                )


def _may_tell(guard: Guard) -> bool:
    """Whether a test may know of a skipped step: by the scale, by its words, or from the gradients themselves."""
    return guard.finite or asks_for_skip(guard)


def _step_of(trace: Trace, record: Record, optimizer: str) -> Record | None:
    """The step through a scaler that a schedule follows in the same iteration."""
    step = previous_step(trace, record.index, optimizer)
    if step is None or not isinstance(step.event, Step) or step.event.scaler is None:
        return None
    same = len(step.iteration) <= len(record.iteration) and is_within(step, record.iteration)
    # After a block that flushes a loop's tail, it counts those loops (epochs).
    deeper = any(
        len(r.iteration) > len(record.iteration) for r, s in trace.of(Step) if s.optimizer == optimizer
    )
    return step if same and not deeper and are_known(trace, step.event.scaler) else None
