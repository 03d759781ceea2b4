"""AMP504 skip-test-misreads-scale."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import AverageUpdate, ReadScale, ScheduleStep, SkipTest, Step
from ampcheck.rule import Rule, Violation
from ampcheck.skips import is_exact, one_sided, stepped_between
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, once_per_site, story


class SkipTestMisreadsScale(Rule):
    """The test for a skipped step misreads the loss scale.

    ## What it does
    Finds a schedule or a moving average guarded by a comparison of two scales that does not tell whether the step was
    skipped: `==`, `!=` or a strict comparison the wrong way round, two readings with no `update` between
    them, or one scale that is to speak for several optimizers.

    ## Why is this bad
    The scale drops exactly when a step was skipped, stays after most other steps, and doubles after every 2000th.
    `==` takes the doubling for a skip; "has grown" holds once in 2000 steps; two readings on one side of
    `update` are always equal, so that nothing is ever guarded.

    ## Example
    ```python
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() == scale:
        scheduler.step()
    ```

    ## Use instead
    ```python
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale:
        scheduler.step()
    ```

    ## Known problems
    None known.

    ## References
    - [GradScaler.update](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update)
    """

    code = "AMP504"
    name = "skip-test-misreads-scale"
    severity = "warning"
    oracle = ("schedule", "decay")
    hint = "read the scale before `step` and after `update`, and test `before <= after`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first event behind each test that misreads the scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        tests: set[SkipTest] = set()
        for record in trace.records:
            if not isinstance(record.event, ScheduleStep | AverageUpdate):
                continue
            for guard in record.guards:
                if guard.skip is None or guard.skip in tests or not _is_visible(trace, guard.skip):
                    continue
                reason = _misreads(trace, guard.skip)
                if reason:
                    tests.add(guard.skip)
                reason = reason or _shares(trace, guard.skip, record)
                if reason:
                    yield Violation(
                        record.index,
                        f"`{guard.text}` does not tell whether the step was skipped: {reason}",
                        _readings(trace, guard.skip),
                    )


def _is_visible(trace: Trace, test: SkipTest) -> bool:
    """Whether both readings stand in the trace."""
    return {test.left, test.right} <= {read.reading for _, read in trace.of(ReadScale)}


def _misreads(trace: Trace, test: SkipTest) -> str:
    """Why a test says something else than it is meant to; empty if it does not."""
    if one_sided(trace, test):
        return f"no `update` of {name(trace, test.scaler)} lies between the two readings"
    if is_exact(trace, test):
        return ""
    if test.op in ("==", "!="):
        return "the scale also changes when it grows"
    return "an unchanged scale, the usual outcome, falls on the wrong side"


def _shares(trace: Trace, test: SkipTest, record: Record) -> str:
    """Why one scale cannot speak for the optimizer of a schedule; empty if it can."""
    steps = {r.event.optimizer for r in stepped_between(trace, test) if isinstance(r.event, Step)}
    mine = record.event.optimizers if isinstance(record.event, ScheduleStep) else ()
    if len(steps) < 2 or len(mine) != 1:
        return ""
    return f"{len(steps)} optimizers stepped, and the scale does not say which of them was skipped"


def _readings(trace: Trace, test: SkipTest) -> tuple[int, ...]:
    """The two readings and the step between them."""
    readings = [record for record, read in trace.of(ReadScale) if read.reading in (test.left, test.right)]
    return story(trace, *readings, *stepped_between(trace, test))
