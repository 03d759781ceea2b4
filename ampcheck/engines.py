"""Whose engine owns an optimizer, and what that engine asks of the code around it.

A library model marks the optimizers that its engine owns (`Role.engine`) and announces calls of its own protocol
(`EngineCall`): an engine's backward right before the backward itself, "hook NAME" and "end NAME" around a hook in
which the engine does nothing to gradients.  The engines:

    accelerate-fp16, fabric-mixed, lightning-manual-fp16    a plain ``loss.backward()`` raises or is not scaled
    deepspeed-zero0                                         the same; the gradients are where torch keeps them
    deepspeed-zero1 … deepspeed-zero3                       gradients are partitioned: ``p.grad`` is None after backward
    deepspeed                                               one of these four, which is decided elsewhere
    accelerate, trainer                                     the same as accelerate-fp16 where float16 is on
    lightning                                               automatic optimisation: backward and step are its own
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ampcheck.events import Backward, EngineCall
from ampcheck.trace import Record, Trace

__all__ = [
    "DOUBLED",
    "OWN_BACKWARDS",
    "WIPED",
    "bypassed",
    "counted_twice",
    "engine_of",
    "gated_steps",
    "in_hooks",
    "is_engine_backward",
    "needs_own_backward",
    "open_hook",
    "partitions_gradients",
]

# An engine's steps: known to be counted up to more than one, or perhaps.
STEPS = ("counted step", "step")
# Hooks after which a trainer zeroes before its own backward: what a backward leaves there is lost.
WIPED = frozenset({"training_step", "on_train_batch_end"})
# Hooks of the Hugging Face Trainer whose trainer differentiates as well, with what a backward leaves still there.
DOUBLED = frozenset({"compute_loss", "callback"})
# The calls that announce an engine's own backward.
OWN_BACKWARDS = frozenset({"backward", "manual_backward", "scale"})


def partitions_gradients(engine: str) -> bool:
    """Whether torch finds no gradients in an engine's parameters, or may not: a clip by torch does nothing."""
    return engine.startswith("deepspeed") and engine != "deepspeed-zero0"


def needs_own_backward(engine: str) -> bool:
    """Whether a backward that is not the engine's own is wrong, or may be."""
    return engine.endswith("-fp16") or engine == "fabric-mixed" or engine.startswith("deepspeed")


def engine_of(trace: Trace, owner: str) -> str:
    """The engine that owns an optimizer, "" for nobody's."""
    return trace.roles[owner].engine if owner in trace.roles else ""


def is_engine_backward(trace: Trace, record: Record) -> bool:
    """Whether a backward is an engine's own: its call is announced right before."""
    if record.index == 0:
        return False
    before = trace.records[record.index - 1].event
    return isinstance(before, EngineCall) and before.call in OWN_BACKWARDS


def bypassed(trace: Trace) -> Iterator[tuple[Record, str]]:
    """The plain backwards into optimizers whose engine has a backward of its own, with the optimizer.

    A function that finds gradients does not know how they were made.
    """
    for record, backward in trace.of(Backward):
        if backward.found:
            continue
        for owner in backward.reaches:
            if needs_own_backward(engine_of(trace, owner)) and not is_engine_backward(trace, record):
                yield record, owner


def open_hook(records: Sequence[Record]) -> str:
    """The hook that a run is in after these records, "" for none."""
    for record in reversed(records):
        event = record.event
        if isinstance(event, EngineCall) and event.call.startswith("hook "):
            return event.call.removeprefix("hook ")
        if isinstance(event, EngineCall) and event.call.startswith("end "):
            return ""
    return ""


def in_hooks(trace: Trace) -> Iterator[tuple[Record, str]]:
    """The records of what happens inside hooks, with the hook's name."""
    open_hooks: list[str] = []
    for record in trace.records:
        event = record.event
        if isinstance(event, EngineCall) and event.call.startswith("hook "):
            open_hooks.append(event.call.removeprefix("hook "))
        elif isinstance(event, EngineCall) and event.call.startswith("end "):
            if open_hooks:
                open_hooks.pop()
        elif open_hooks:
            yield record, open_hooks[-1]


def gated_steps(trace: Trace) -> Iterator[tuple[Record, tuple[Record, ...]]]:
    """The steps of an engine that counts them itself which wait for a test that its backwards do not wait for.

    With each come the backwards of the micro-batches since the step before it.
    """
    backwards: list[Record] = []
    for record, call in trace.of(EngineCall):
        if call.library != "deepspeed":
            continue
        if call.call == "backward":
            backwards.append(record)
        elif call.call in STEPS:
            waiting, backwards = tuple(backwards), []
            tests = {g.text for r in waiting for g in r.guards}
            gated = any((g.varying or g.boundary) and g.text not in tests for g in record.guards)
            if gated and len({r.micro for r in waiting}) > 1:
                yield record, waiting


def counted_twice(trace: Trace) -> Iterator[tuple[Record, Record, str]]:
    """Two steps of an engine that counts them, with no backward between them; the engine's optimizer."""
    last: Record | None = None
    for record, call in trace.of(EngineCall):
        if call.library != "deepspeed" or call.call not in ("backward", "counted step"):
            continue
        if call.call == "counted step" and last is not None and last.iteration == record.iteration:
            yield last, record, call.roles[-1]
        last = record if call.call == "counted step" else None
