"""AMP205 clip-set-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, next_touch, optimizers
from ampcheck.clipping import clip_sites, clipped, step_missed, sure_owners
from ampcheck.events import Clip, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, fresh, name, once_per_site, previous_backward, story


class ClipSetMismatch(Rule):
    """The clipped parameters are not those that are ready to be clipped.

    ## What it does
    Finds a joint clip over gradients of which only some were unscaled, and a clip of one optimizer's parameters just
    before the step of another, whose own gradients are not clipped.

    ## Why is this bad
    A joint norm over unscaled and scaled gradients is √(‖a‖² + S²‖b‖²): the scaled part drowns the other, which is
    then scaled down to almost nothing. A clip of the wrong parameters does nothing for the step that follows.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(encoder_optimizer)
    clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
    scaler.step(encoder_optimizer)
    scaler.step(decoder_optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(encoder_optimizer)
    scaler.unscale_(decoder_optimizer)
    clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
    scaler.step(encoder_optimizer)
    scaler.step(decoder_optimizer)
    scaler.update()
    ```

    ## Known problems
    Clipping more than the optimizer holds is right where the rest is frozen (LoRA), and is not reported. Gradients of
    parameters that no optimizer seems to hold make a finding *possible* at most.

    ## References
    - [Automatic mixed precision examples: multiple models, losses and optimizers](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers)
    """

    code = "AMP205"
    name = "clip-set-mismatch"
    severity = "error"
    oracle = ("clip-norm", "gradient")
    hint = "unscale every optimizer whose parameters are clipped, and clip those of the optimizer that steps"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield joint clips over mixed units, and clips that the step after them has no use for."""
        yield from once_per_site(trace, self._mixed(trace))
        yield from once_per_site(trace, self._mistaken(trace))

    def _mixed(self, trace: Trace) -> Iterator[Violation]:
        for record, clip in trace.of(Clip):
            held = {o: fresh(trace, record, o) for o in clip.owners if is_sure(record.before.buffer(o))}
            scaled = [o for o, found in held.items() if found and all(c.unit.is_scaled for c in found)]
            plain = [o for o, found in held.items() if found and not any(c.unit.is_scaled for c in found)]
            if scaled and plain:
                owners = (*scaled, *plain)
                yield Violation(
                    record.index,
                    "the clip takes one norm over gradients in different units: those of "
                    f"{_listed(trace, scaled)} still carry the loss scale, those of {_listed(trace, plain)} do not",
                    story(trace, *(previous_backward(trace, record.index, o) for o in owners)),
                    certain=are_known(trace, *owners) and not any(o.startswith("free:") for o in owners),
                    predicts="√(‖a‖² + S²‖b‖²)",
                )

    def _mistaken(self, trace: Trace) -> Iterator[Violation]:
        for records in clip_sites(trace):
            if any(_used(trace, r) for r in records):
                continue
            for record in records:
                step = step_missed(trace, record)
                if step is None or not isinstance(step.event, Step) or not sure_owners(trace, record):
                    continue
                if is_sure(step.before.buffer(step.event.optimizer)):
                    yield Violation(
                        record.index,
                        f"the clip bounds {_listed(trace, list(clipped(record)))}, but the step after it is that "
                        f"of {name(trace, step.event.optimizer)}, which is not clipped",
                        story(trace, previous_backward(trace, step.index, step.event.optimizer), step),
                    )


def _used(trace: Trace, record: Record) -> bool:
    """Whether a step of a clip's owner uses what it has bounded."""
    touches = [next_touch(trace, record.index, o) for o in clipped(record) if o in optimizers(trace)]
    return any(t is not None and isinstance(t.event, Step) for t in touches)


def _listed(trace: Trace, owners: list[str]) -> str:
    return " and ".join(name(trace, o) for o in owners)
