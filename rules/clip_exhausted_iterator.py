"""AMP206 clip-exhausted-iterator."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Build, Clip, Read, Site
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, names, next_step, once_per_site, previous_backward, story


class ClipExhaustedIterator(Rule):
    """A clip is given an iterator over parameters that has been consumed before.

    ## What it does
    Finds `filter(...)`, `map(...)`, `chain(...)`, a generator expression or `model.parameters()` that is kept in a
    variable or attribute, consumed (by an optimizer's constructor, a loop, `list`, an earlier clip), and then
    clipped, or measured by a clip with an infinite threshold.

    ## Why is this bad
    An iterator can be gone through once. The clip finds no parameters, returns a norm of 0, and nothing is ever
    clipped. Where the clip itself is what consumes it, only the first step is clipped.

    ## Example
    ```python
    params = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.AdamW(params, lr=1e-4)
    for inputs, targets in loader:
        criterion(model(inputs), targets).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=1e-4)
    for inputs, targets in loader:
        criterion(model(inputs), targets).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    An iterator that is made in another method than `__init__` may be made anew before each step: then the finding
    is *possible* only. What an unseen function does with an iterator is not guessed.

    ## References
    - https://github.com/PixArt-alpha/PixArt-alpha/pull/160: the fault in a training script, and its repair.
    - https://docs.python.org/3/glossary.html#term-iterator
    """

    code = "AMP206"
    name = "clip-exhausted-iterator"
    severity = "error"
    oracle = ("gradient", "clip-norm", "read-norm")
    hint = "keep the parameters in a list: `list(...)`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the clips that find no parameters."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record in trace.records:
            event = record.event
            if not isinstance(event, Clip | Read) or event.exhausted is None:
                continue
            consumer = _at(trace, event.exhausted, record.index)
            again = event.exhausted == event.site
            by = "an earlier call of this very line" if again else _spelled(trace, consumer, event.exhausted)
            what = "clipped" if isinstance(event, Clip) else "measured"
            steps = (next_step(trace, record.index, owner) for owner in event.owners)
            backwards = (previous_backward(trace, record.index, owner) for owner in event.owners)
            yield Violation(
                record.index,
                f"the iterator over {_whose(trace, event.owners)} was consumed by {by}: "
                f"nothing is {what}{' after the first time' if again else ''}",
                story(trace, consumer, *backwards, *steps),
                certain=not event.assumed and (consumer is None or _is_known(trace, consumer)),
            )


def _at(trace: Trace, site: Site, before: int) -> Record | None:
    """The event that consumed an iterator there, where it is one."""
    return next((r for r in reversed(trace.records[:before]) if r.event.site == site), None)


def _spelled(trace: Trace, consumer: Record | None, site: Site) -> str:
    match consumer.event if consumer else None:
        case Build(kind="optimizer", role=role):
            return f"the constructor of {name(trace, role)} in line {site.line}"
        case Clip():
            return f"the clip in line {site.line}"
        case _:
            return f"line {site.line}"


def _whose(trace: Trace, owners: tuple[str, ...]) -> str:
    found = [o if o.startswith("free:") else f"`{trace.roles[o].text}`" for o in owners if o in trace.roles]
    return f"the parameters of {' and '.join(found)}" if found else names(trace, owners)


def _is_known(trace: Trace, consumer: Record) -> bool:
    event = consumer.event
    return not isinstance(event, Build) or are_known(trace, event.role)
