"""AMP307 leftover-window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.boundaries import boundary_of, is_eventful, is_sure, length, optimizers
from ampcheck.events import ZeroGrad
from ampcheck.gradients import Contribution
from ampcheck.rule import Rule, Violation
from ampcheck.spans import Round, is_stray, round_of, spans
from ampcheck.trace import Record, Trace, Window
from ampcheck.windows import escapes_between, fresh, name, once_per_site, story


class LeftoverWindow(Rule):
    """The last micro-batches of an epoch, too few for a window, are carried into the next epoch or thrown away.

    ## What it does
    Finds a boundary test that starts over with every epoch, while the gradients do not: after an epoch whose length is
    no multiple of K, its tail is still there when the next epoch's first window is stepped. Where something zeroes the
    tail first, it is only lost, and this is a note.

    ## Why is this bad
    With K = 3 and an epoch of 7, the first step of every later epoch uses four micro-batches and still divides by
    three: 7/3 for 2 where the micro-gradients are 1 | 1, 2, 3, and the first of them comes from the old epoch. A tail
    that is zeroed is no wrong update, but up to K - 1 micro-batches of every epoch are computed for nothing.

    ## Example
    ```python
    for epoch in range(epochs):
        for i, (inputs, targets) in enumerate(loader):
            (criterion(model(inputs), targets) / accumulation_steps).backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    for epoch in range(epochs):
        for i, (inputs, targets) in enumerate(loader):
            (criterion(model(inputs), targets) / accumulation_steps).backward()
            if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```
    A counter that runs on across epochs, an epoch cut to a multiple of K, or a step after the loop do as well. The
    short last window may be divided by K or by its own length.

    ## Known problems
    Whether an epoch really is a multiple of K is not known to the code. A function that is called once an epoch by
    code that cannot be seen counts as an epoch if its name says so, or if it is told the epoch's number. What remains
    when training ends is no finding.

    ## References
    - [Automatic mixed precision examples: gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "AMP307"
    name = "leftover-window"
    severity = "warning"
    oracle = ("gradient",)
    contests = ("carry",)
    hint = "step at the end of the epoch too: `(i + 1) % K == 0 or i + 1 == len(loader)`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the boundary tests that carry a tail over, and the zeroings that drop one."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            if not _keeps_windows(trace, optimizer, window.length):
                continue
            yield from _carried(trace, optimizer, window)
            yield from _dropped(trace, optimizer, window)


@dataclass(frozen=True, slots=True)
class _Held:
    """What an optimizer holds: its micro-batches, and the rounds of the loop that they come from, in order."""

    contributions: tuple[Contribution, ...]
    micros: frozenset[int]
    rounds: tuple[Round, ...]


def _held(trace: Trace, contributions: tuple[Contribution, ...]) -> _Held:
    seen = tuple(c for c in contributions if 0 <= c.record < len(trace.records))
    rounds = dict.fromkeys(round_of(trace.records[c.record]) for c in seen)
    return _Held(seen, frozenset(c.micro for c in seen), tuple(rounds))


def _own(trace: Trace, optimizer: str, step: Record) -> _Held:
    contributions = step.before.buffer(optimizer).contributions
    return _held(trace, tuple(c for c in contributions if not is_stray(trace, c, optimizer, step)))


def _keeps_windows(trace: Trace, optimizer: str, length: int) -> bool:
    """Whether the loop steps on K micro-batches of one epoch at a time, by a boundary test.

    If even the first window is another one, the test is off by one, and the tail comes of that.
    """
    steps = [s.step for s in spans(trace, optimizer) if s.step and s.micros and boundary_of(s.step)]
    held = [_own(trace, optimizer, step) for step in steps]
    whole = [len(h.micros) == length and len(h.rounds) == 1 for h in held]
    return any(whole) and (whole[0] or is_eventful(trace) or any(c.varying for c in trace.choices))


def _carried(trace: Trace, optimizer: str, window: Window) -> Iterator[Violation]:
    for span in spans(trace, optimizer):
        step = span.step
        boundary = boundary_of(step) if step else None
        if step is None or boundary is None or not is_sure(step.before.buffer(optimizer)):
            continue
        held = _own(trace, optimizer, step)
        epochs = {epoch for epoch, _ in held.rounds}
        if len(held.rounds) != 2 or len(epochs) != 2 or len(held.micros) <= window.length:
            continue
        first, last = held.contributions[0], held.contributions[-1]
        if first.record < 0 or escapes_between(trace, first.record, step.index, optimizer):
            continue
        yield Violation(
            step.index,
            f"`{boundary.text}` starts over with every epoch, the gradients do not: after an epoch that is no multiple "
            f"of {window.named}, {name(trace, optimizer)} steps on its last micro-batches and the next epoch's "
            f"first {window.named} together",
            story(trace, first.record, last.record),
            predicts="(K + r)/K",
            site=boundary.site,
        )


def _dropped(trace: Trace, optimizer: str, window: Window) -> Iterator[Violation]:
    for record, zero in trace.of(ZeroGrad):
        if optimizer not in zero.owners or not is_sure(record.before.buffer(optimizer)):
            continue
        tail = _held(trace, fresh(trace, record, optimizer))
        if not 0 < len(tail.micros) < window.length or len(tail.rounds) != 1:
            continue
        backward = trace.records[tail.contributions[-1].record]
        if round_of(record) == tail.rounds[0] or record.iteration == backward.iteration:
            continue  # inside the window: another mistake
        if any(is_stray(trace, c, optimizer, record) for c in tail.contributions):
            continue
        yield Violation(
            record.index,
            f"this drops what an epoch that is no multiple of {window.named} leaves over: up to {window.named} - 1 "
            f"micro-batches are computed for nothing",
            story(trace, backward),
            severity="note",
        )
