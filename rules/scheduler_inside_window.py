"""AMP501 scheduler-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import boundary_of, length, next_touch, optimizers, per_micro_schedule
from ampcheck.events import ScheduleStep
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, next_step, once_per_site, story


class SchedulerInsideWindow(Rule):
    """A schedule counted in updates advances on every micro-batch.

    ## What it does
    Finds a scheduler that steps several times per accumulation window while its optimizer steps once.

    ## Why is this bad
    The learning rate runs through its schedule K times too fast: with 8 micro-batches and K = 4 it advances 8 times
    for 2 updates, so that warm-up and decay are over after a part of the training.

    ## Example
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()
    ```

    ## Use instead
    ```python
    (loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    A schedule whose length was multiplied by K on purpose cannot be told apart; leave the rule out there (`--ignore`).

    ## References
    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "AMP501"
    name = "scheduler-inside-window"
    severity = "error"
    oracle = ("schedule", "rates")
    hint = "step the scheduler at the boundary, right after the optimizer"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the schedules that advance on several micro-batches of one window."""
        if length(trace) > 1 and trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for scheduler, optimizer in _pairs(trace):
            advances = per_micro_schedule(trace, scheduler, optimizer)
            if not advances:
                continue
            step = next_step(trace, advances[0].index, optimizer)
            counts = {r.event.counts for r in advances if isinstance(r.event, ScheduleStep)}
            role = trace.roles.get(scheduler)
            # A torch class without a count of its own (LambdaLR) is stepped where the updates are, or it is wrong.
            counted = counts == {"updates"} or (role is not None and role.detail != "")
            yield Violation(
                advances[0].index,
                f"{name(trace, scheduler)} advances on every micro-batch, {name(trace, optimizer)} steps "
                f"{_when(trace, step)}",
                story(trace, next_touch(trace, -1, optimizer), step, *advances[1:2]),
                certain=counted and are_known(trace, scheduler),
                predicts="K",
            )


def _pairs(trace: Trace) -> list[tuple[str, str]]:
    """The schedulers that may count updates, each with its optimizers."""
    known = optimizers(trace)
    pairs: dict[tuple[str, str], None] = {}
    for _, schedule in trace.of(ScheduleStep):
        if schedule.counts in ("updates", "unknown"):
            owners = schedule.optimizers or (known if len(known) == 1 else ())
            pairs.update(dict.fromkeys((schedule.scheduler, o) for o in owners if o in known))
    return list(pairs)


def _when(trace: Trace, step: Record | None) -> str:
    boundary = boundary_of(step) if step else None
    count = trace.window.named if trace.window else "K"
    return f"only when `{boundary.text}`" if boundary else f"once for {count} of them"
