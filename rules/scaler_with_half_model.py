"""AMP602 scaler-with-half-model."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward, Convert, Step, Unscale
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, once_per_site, story


class ScalerWithHalfModel(Rule):
    """A GradScaler steps a model whose parameters are float16.

    ## What it does
    Finds `model.half()` (or a cast to float16) of a model that an optimizer trains through a GradScaler.

    ## Why is this bad
    The gradients are float16 too, and `unscale_` or `step` raises `Attempting to unscale FP16 gradients.` A
    fused optimizer without an explicit `unscale_` accepts them, and then small updates vanish in the float16 weights.

    ## Example
    ```python
    model = model.half()
    scaler.scale(criterion(model(inputs), targets)).backward()
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    ```

    ## Known problems
    An optimizer over a part of the parameters (adapters on a float16 base) makes the finding *possible* at most.

    ## References
    - [Automatic mixed precision: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    code = "AMP602"
    name = "scaler-with-half-model"
    severity = "error"
    oracle = ("exception",)
    hint = "keep the parameters in float32 and use autocast for float16"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the casts to float16 of models that a scaler's optimizer trains."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for role in trace.roles_of("optimizer"):
            use = _scaled_use(trace, role.id)
            if use is None:
                continue
            for model in role.models:
                cast = _half(trace, model, use)
                if cast is not None:
                    yield Violation(
                        cast.index,
                        f"{name(trace, model)} is cast to float16, and {name(trace, role.id)} trains it through a "
                        "GradScaler, which refuses float16 gradients",
                        story(trace, use),
                        certain=not role.partial and role.detail.startswith("torch."),
                    )


def _scaled_use(trace: Trace, optimizer: str) -> Record | None:
    """The first unscaling of an optimizer's gradients, explicit or in a step, after a backward that reached it."""
    trained = False
    for record in trace.records:
        event = record.event
        if isinstance(event, Backward) and optimizer in event.reaches and optimizer not in event.assumed:
            trained = True
        elif isinstance(event, Unscale | Step) and event.optimizer == optimizer and event.scaler and trained:
            return record
    return None


def _half(trace: Trace, model: str, use: Record) -> Record | None:
    """The cast to float16 that is in force for a model at a record."""
    casts = [r for r, convert in trace.of(Convert) if convert.model == model and r.index < use.index]
    last = casts[-1] if casts else None
    half = last is not None and isinstance(last.event, Convert) and last.event.dtype in ("float16", "half")
    return last if half else None
