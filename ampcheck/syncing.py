"""Whether a backward reduces gradients over ranks, by the wrapper of the model behind it.

DDP decides in the *forward*: a pass inside ``no_sync`` prepares no reduction, wherever its backward runs.  FSDP
decides in the backward.  A pass around DDP (``ddp.module(x)``) prepares none either.  A backward that does reduce takes
along what earlier ones have left, so that only the last backward of a window must.
(torch/nn/parallel/distributed.py and torch/distributed/fsdp, 2.13.)
"""

from __future__ import annotations

from ampcheck.events import Backward, Forward, Reduce
from ampcheck.spans import Span
from ampcheck.trace import Record, Trace

__all__ = ["bypasses", "is_wrapped", "last_backward", "passes", "reduces"]


def passes(trace: Trace, backward: Backward, optimizer: str) -> tuple[Forward, ...]:
    """The wrapped passes behind a backward through models that an optimizer holds, as far as that is known."""
    role = trace.roles.get(optimizer)
    held = role.models if role else ()
    wrapped = tuple(f for f in backward.loss.forwards if is_wrapped(f))
    return tuple(f for f in wrapped if f.model in held) or (() if held else wrapped)


def is_wrapped(forward: Forward) -> bool:
    """Whether a pass belongs to a model that DDP or FSDP wraps."""
    return forward.wrapper.startswith(("ddp", "fsdp"))


def bypasses(trace: Trace, backward: Backward, optimizer: str) -> Forward | None:
    """A pass around DDP, where no pass of the same model goes through it."""
    found = passes(trace, backward, optimizer)
    through = {f.model for f in found if not f.bypassed}
    return next((f for f in found if f.bypassed and f.wrapper == "ddp" and f.model not in through), None)


def reduces(trace: Trace, backward: Backward, optimizer: str) -> bool:
    """Whether a backward through a wrapped model reduces an optimizer's gradients."""
    return any(
        (f.synced and not f.bypassed) if f.wrapper == "ddp" else backward.synced
        for f in passes(trace, backward, optimizer)
    )


def last_backward(trace: Trace, span: Span) -> tuple[Record, Backward] | None:
    """The last backward before a span's step through a wrapped model, unless gradients are reduced by hand after it."""
    if span.step is None:
        return None
    for record in reversed(span.records):
        event = record.event
        if isinstance(event, Reduce) and span.optimizer in event.owners:
            return None
        if isinstance(event, Backward) and span.optimizer in event.reaches:
            return (record, event) if passes(trace, event, span.optimizer) else None
    return None
