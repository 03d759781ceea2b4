"""AMP317 gradient-from-other-loss."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, is_within, optimizers
from ampcheck.events import Backward, Escape, Step
from ampcheck.gradients import Contribution
from ampcheck.rule import Rule, Violation
from ampcheck.spans import Span, is_stray, spans
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, once_per_site, story


class GradientFromOtherLoss(Rule):
    """A step uses gradients that another optimizer's loss has left in its parameters.

    ## What it does
    Finds a loss that runs through a second optimizer's parameters, which nothing freezes, is stepped by the first
    one only, and whose gradients are still there when the second optimizer steps on its own loss.

    ## Why is this bad
    The generator's loss asks for the opposite of what the discriminator should learn. Zeroed before the generator's
    backward and not after it, the discriminator steps on both: 13 for 3.

    ## Example
    ```python
    d_loss.backward()
    optimizer_d.step()
    optimizer_d.zero_grad()
    criterion(discriminator(generator(z)), real).backward()
    optimizer_g.step()
    optimizer_g.zero_grad()
    ```

    ## Use instead
    ```python
    optimizer_d.zero_grad()
    d_loss.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    criterion(discriminator(generator(z)), real).backward()
    optimizer_g.step()
    ```

    ## Known problems
    Certain only where the loss is seen to run through those parameters and the step comes in a later iteration than
    the loss; two losses of one iteration may be meant to add up. A model that is handed to unseen code which may freeze
    it leaves the finding possible.

    ## References
    - [DCGAN tutorial](https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html)
    - [Automatic mixed precision examples: multiple models, losses, and optimizers](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers)
    """

    code = "AMP317"
    name = "gradient-from-other-loss"
    severity = "error"
    oracle = ("gradient",)
    contests = ("stray",)
    hint = "zero this optimizer's gradients right before the backward of its own loss"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the steps that use what another optimizer's loss has left."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            last = -1
            for span in spans(trace, optimizer):
                if span.step is None:
                    continue
                left = _left_by_others(trace, span, last)
                last = span.step.index
                if not left:
                    continue
                source = trace.records[left[0].record]
                other = _stepped_by(trace, source, optimizer, span.step)
                own, backward = span.backwards[-1]
                if is_within(source, span.step.iteration) and backward.reaches != (optimizer,):
                    continue  # an encoder that two tasks share
                yield Violation(
                    span.step.index,
                    f"{name(trace, optimizer)} steps on gradients that the loss of {name(trace, other)} has left in "
                    "its parameters: nothing zeroes them in between",
                    story(trace, source, own),
                    certain=_is_evident(trace, optimizer, source, span.step),
                )


def _left_by_others(trace: Trace, span: Span, last: int) -> tuple[Contribution, ...]:
    """What a step uses of losses that another optimizer has stepped on; nothing where it is used a second time.

    Not meant: the same loss over several micro-batches, for an optimizer that steps less often.
    """
    step = span.step
    if step is None:
        return ()
    buffer = step.before.buffer(span.optimizer)
    if not is_sure(buffer) or any(c.record <= last for c in buffer.contributions):
        return ()
    left = tuple(c for c in buffer.contributions if is_stray(trace, c, span.optimizer, step))
    own = {_place(trace, c) for c in buffer.contributions if c not in left}
    return left if own and own.isdisjoint(_place(trace, c) for c in left) else ()


def _place(trace: Trace, contribution: Contribution) -> object:
    return trace.records[contribution.record].event.site


def _stepped_by(trace: Trace, source: Record, optimizer: str, step: Record) -> str:
    """The optimizer that a loss is for: the first to step on it."""
    reached = source.event.reaches if isinstance(source.event, Backward) else ()
    return next(
        r.event.optimizer
        for r in trace.between(source.index, step.index)
        if isinstance(r.event, Step) and r.event.optimizer in reached and r.event.optimizer != optimizer
    )


def _is_evident(trace: Trace, optimizer: str, source: Record, step: Record) -> bool:
    """Whether the loss is seen to run through the optimizer's parameters, and belongs to an earlier iteration.

    In that iteration the optimizer had stepped already: what came after was none of its own.
    """
    models = trace.roles[optimizer].models
    backward = source.event
    if not models or not isinstance(backward, Backward):
        return False
    # The loss ran through a model as a whole; an optimizer that holds a part of it may hold what is frozen.
    through = {f.model for f in backward.loss.forwards}
    if not through.intersection(models):
        return False
    handed_on = {f"M:{model}" for model in models}
    if any(handed_on.intersection(e.roles) for r, e in trace.of(Escape) if r.index < step.index):
        return False
    return not is_within(source, step.iteration) and any(
        isinstance(r.event, Step) and r.event.optimizer == optimizer and is_within(r, source.iteration)
        for r in trace.records[: source.index]
    )
