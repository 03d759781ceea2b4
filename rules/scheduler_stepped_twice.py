"""AMP506 scheduler-stepped-twice."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import optimizers
from ampcheck.events import ScheduleStep
from ampcheck.rule import Rule, Violation
from ampcheck.spans import spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, next_backward, once_per_site, story


class SchedulerSteppedTwice(Rule):
    """The same scheduler advances twice for one update.

    ## What it does
    Finds two steps of one scheduler in the same iteration with no step of its optimizer between them, one of which is
    often the engine's own.

    ## Why is this bad
    The learning rate runs through its schedule twice as fast, and every other value is never used.

    ## Example
    ```python
    optimizer.step()
    scheduler.step()
    log(loss)
    scheduler.step()
    ```

    ## Use instead
    ```python
    optimizer.step()
    scheduler.step()
    log(loss)
    ```

    ## Known problems
    Two different schedulers on one optimizer are right, and not reported.

    ## References
    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "AMP506"
    name = "scheduler-stepped-twice"
    severity = "warning"
    oracle = ("schedule", "rates")
    hint = "step each scheduler in one place"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the second step of a scheduler in an iteration."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        known = optimizers(trace)
        for optimizer in known:
            # Earlier steps of a schedule fast-forward it.
            begin = next_backward(trace, -1, optimizer)
            for span in spans(trace, optimizer) if begin else ():
                last: dict[tuple[str, tuple[int, ...]], Record] = {}
                for record in span.records:
                    event = record.event
                    if not isinstance(event, ScheduleStep) or event.counts == "metric":
                        continue
                    if begin is None or record.index < begin.index:
                        continue
                    if optimizer not in (event.optimizers or (known if len(known) == 1 else ())):
                        continue
                    first = last.setdefault((event.scheduler, record.iteration), record)
                    if first is not record:
                        yield Violation(
                            record.index,
                            f"{name(trace, event.scheduler)} advances a second time for one step of "
                            f"{name(trace, optimizer)}",
                            story(trace, first),
                            certain=are_known(trace, event.scheduler) and event.counts != "epochs",
                            predicts="2",
                        )
