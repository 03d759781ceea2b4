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
    skipped: `==`, `!=` or a strict comparison the wrong way round, or two readings with no `update` between them.

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
    With several optimizers on one scaler a drop does not say which of them was skipped; that is *possible* at most.

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
                if guard.skip is None or guard.skip in tests:
                    continue
                reason, certain = _misreads(trace, guard.skip, record)
                if reason:
                    tests.add(guard.skip)
                    yield Violation(
                        record.index,
                        f"`{guard.text}` does not tell whether the step was skipped: {reason}",
                        _readings(trace, guard.skip),
                        certain,
                    )


def _misreads(trace: Trace, test: SkipTest, record: Record) -> tuple[str, bool]:
    """Why a test says something else than it is meant to, and whether that is certain; ("", True) if it does not."""
    places = {read.reading for _, read in trace.of(ReadScale)}
    if not {test.left, test.right} <= places:
        return "", True
    if one_sided(trace, test):
        return f"no `update` of {name(trace, test.scaler)} lies between the two readings", True
    if not is_exact(trace, test):
        if test.op in ("==", "!="):
            return "the scale also changes when it grows", True
        return "an unchanged scale, the usual outcome, falls on the wrong side", True
    steps = {r.event.optimizer for r in stepped_between(trace, test) if isinstance(r.event, Step)}
    mine = record.event.optimizers if isinstance(record.event, ScheduleStep) else ()
    if len(steps) > 1 and len(mine) == 1:
        return f"{len(steps)} optimizers stepped, and the scale does not say which was skipped", False
    return "", True


def _readings(trace: Trace, test: SkipTest) -> tuple[int, ...]:
    """The two readings and the step between them."""
    readings = [record for record, read in trace.of(ReadScale) if read.reading in (test.left, test.right)]
    return story(trace, *readings, *stepped_between(trace, test))
