"""AMP607 float16-without-scaler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ampcheck.boundaries import is_sure
from ampcheck.events import Autocast, Backward, Edit, Forward, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, once_per_site, previous_step, story

_DEVICE = re.compile(r"cuda|gpu|cpu|device|mps|xpu|npu", re.IGNORECASE)


class Float16WithoutScaler(Rule):
    """float16 autocast trains without a loss scale.

    ## What it does
    Finds optimizer steps on gradients of a loss that was computed under float16 autocast and never scaled. Float16 is
    the default of `torch.cuda.amp.autocast()` and `torch.autocast("cuda")`.

    ## Why is this bad
    Gradients below 6e-8 flush to zero in float16, and those below 6e-5 lose precision. Large parts of a model may
    stop learning, without any sign of it. The loss scale is there to lift them into float16's range.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    bfloat16 needs no scale, and is not reported. Where an option that is not decided here turns autocast on, where an
    option turns a scaler off that is there, where the optimizer may be a wrapper that scales by itself, or where
    gradients are multiplied by hand, the finding is *possible* only.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html
    """

    code = "AMP607"
    name = "float16-without-scaler"
    severity = "warning"
    oracle = ("gradient",)
    contests = ("unscaled",)
    hint = "scale the loss with torch.amp.GradScaler, or use bfloat16"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the raw steps on gradients that float16 may have flushed to zero."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            backward = None if step.scaler else _unscaled(trace, record, step.optimizer)
            if backward is None or not isinstance(backward.event, Backward):
                continue
            passes = [f for f in backward.event.loss.forwards if f.autocast == "float16"]
            casts = (r.index for r, cast in trace.of(Autocast) if r.index < backward.index)
            yield Violation(
                record.index,
                f"{name(trace, step.optimizer)} steps on gradients of a loss that was computed in float16 and never "
                "scaled: small gradients are flushed to zero",
                story(trace, max(casts, default=None), backward),
                certain=_is_certain(trace, record, step.optimizer, passes, backward),
            )


def _unscaled(trace: Trace, record: Record, optimizer: str) -> Record | None:
    """The first backward of what a step uses, where all of it comes from float16 passes and none was ever scaled."""
    held = record.before.buffer(optimizer).contributions
    backwards = [trace.records[c.record] for c in held if 0 <= c.record < len(trace.records)]
    for backward in backwards:
        event = backward.event
        if not isinstance(event, Backward) or any(unit.scale or unit.other for unit in event.loss.parts):
            return None
        if not any(f.autocast == "float16" for f in event.loss.forwards):
            return None
    return backwards[0] if backwards else None


def _is_certain(
    trace: Trace, record: Record, optimizer: str, passes: list[Forward], backward: Record
) -> bool:
    last = previous_step(trace, record.index, optimizer)
    between = trace.records[last.index + 1 if last else 0 : record.index]
    by_hand = any(isinstance(r.event, Edit) and optimizer in r.event.owners for r in between)
    switched_off = bool(trace.roles_of("scaler")) and any(not choice.varying for choice in trace.choices)
    of_device = any(_DEVICE.search(choice.text) for choice in trace.choices)
    return (
        not any(f.option for f in passes)
        and not by_hand
        and not of_device
        and not switched_off
        and trace.complete
        and are_known(trace, optimizer)
        and trace.roles[optimizer].detail.startswith("torch.")
        and is_sure(record.before.buffer(optimizer))
    )
