"""AMP502 scheduler-before-optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import optimizers, per_micro_schedule
from ampcheck.events import ScheduleStep
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, next_step, once_per_site, previous_step, story


class SchedulerBeforeOptimizer(Rule):
    """The scheduler advances before the optimizer's first step.

    ## What it does
    Finds a `scheduler.step()` in the training loop that comes before the `optimizer.step()` it belongs to.

    ## Why is this bad
    The first learning rate is never used (0.75 for 1.5 at the first step), and the whole schedule is one step ahead.
    Torch warns once.

    ## Example
    ```python
    loss.backward()
    scheduler.step()
    optimizer.step()
    ```

    ## Use instead
    ```python
    loss.backward()
    optimizer.step()
    scheduler.step()
    ```

    ## Known problems
    A loop that fast-forwards the schedule when training is resumed is not meant, and not reported.
    Where the class of the scheduler is not torch's, or has a `step` of its own, it may set the rate of the step that
    follows: the finding is only possible.

    ## References
    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate): since
      torch 1.1 the scheduler is expected after the optimizer
    """

    code = "AMP502"
    name = "scheduler-before-optimizer"
    severity = "error"
    oracle = ("rates", "warning")
    hint = "call `scheduler.step()` after `optimizer.step()`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each scheduler's first step where its optimizer's comes later in the same iteration."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        seen = set()
        for record, schedule in trace.of(ScheduleStep):
            owners = [o for o in schedule.optimizers or optimizers(trace) if o in optimizers(trace)]
            if schedule.scheduler in seen or schedule.counts == "metric" or len(owners) != 1:
                continue
            seen.add(schedule.scheduler)
            step = _late_step(trace, record, owners[0])
            if step is None or per_micro_schedule(trace, schedule.scheduler, owners[0]):
                continue
            yield Violation(
                record.index,
                f"{name(trace, schedule.scheduler)} advances before the first step of {name(trace, owners[0])}: "
                "the first learning rate is never used",
                story(trace, step),
                certain=are_known(trace, schedule.scheduler) and bool(schedule.optimizers),
            )


def _late_step(trace: Trace, record: Record, optimizer: str) -> Record | None:
    """The optimizer's first step, where a schedule's iteration reaches it only afterwards, again and again."""
    step = next_step(trace, record.index, optimizer)
    if step is None or previous_step(trace, record.index, optimizer):
        return None
    # A step that was skipped in this iteration and comes in the next one is no mistake of the order.
    if step.iteration[: len(record.iteration)] != record.iteration:
        return None
    recurs = any(r.event.site == record.event.site for r in trace.records[step.index :])
    return step if recurs else None
