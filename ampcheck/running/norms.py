"""Norms of gradients: where one is taken, and what becomes of it.

Taking a norm is harmless by itself: it may be tested for finiteness, be the coefficient of a clip, or never be looked
at.  So the event is emitted where it is taken, in the state the gradients are in then, and its use is filled in as the
run goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from ampcheck.events import PLAIN, Read, Unit
from ampcheck.program import Node
from ampcheck.running import values as v
from ampcheck.running.describing import flow_of, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.roles import owners_of
from ampcheck.trace import Record

__all__ = ["combined", "finished", "is_reduction", "passed_on", "taken", "taken_from", "use"]

Use = Literal["shown", "tested", "kept", "clip"]

REDUCTION = re.compile(r"norm|^(sum|mean|max|min|amax|amin|median|std|var|item|quantile|histc|histogram)$")
# What these are given comes out of them as it was, or as one number of many.
PASSING = re.compile(
    r"^(sqrt|square|pow|abs|log\w*|exp|stack|cat|tensor|as_tensor|float\w*|array|asarray|clamp|minimum|maximum|where|"
    r"hypot|to|list|tuple|round|all_reduce|reduce\w*|all_gather\w*|gather\w*|broadcast\w*|synchronize|append|extend)$"
)
REPORTING = re.compile(
    r"print|log|info|debug|warn|error|scalar|histogram|update|append|write|postfix|description|record|track|report|"
    r"format|str$|meter|plot|save|add$|put$|emit",
    re.IGNORECASE,
)


def is_reduction(name: str) -> bool:
    """Whether a function or method of this name makes a number of gradients."""
    return REDUCTION.search(name.removesuffix("_")) is not None


def taken(machine: Machine, gradient: v.Gradient, node: Node) -> v.GradientNorm:
    """The norm (mean, sum, element) of a gradient."""
    if gradient.factor.scale:
        # Divided by the scale first: ``(p.grad / scale).norm()`` is the true norm.
        return v.GradientNorm(gradient.parameters, frozenset(), unscaled=True)
    return taken_from(machine, gradient.parameters, node)


def taken_from(
    machine: Machine, parameters: v.Parameters | None, node: Node, empty: v.Cursor | None = None
) -> v.GradientNorm:
    """The norm of the gradients of some parameters; the only optimizer's where they are unknown.

    `empty` is the spent iterator that they are to come from.
    """
    owners, _ = owners_of(machine, parameters)
    if not owners:
        return v.GradientNorm(parameters, frozenset())
    at, guessed = (empty.at, empty.guessed) if empty is not None else (None, False)
    record = machine.emit(Read(site=node.site, owners=owners, use="", exhausted=at, assumed=guessed))
    return v.GradientNorm(parameters, frozenset({record.index}))


def passed_on(machine: Machine, name: str, given: Iterable[v.Value], node: Node) -> v.GradientNorm:
    """What a function that cannot be seen into makes of norms or lists of gradients."""
    norms = list(_norms(given))
    reads = _union(norms)
    unscaled = bool(norms) and all(n.unscaled for n in norms)
    if reads is None and is_reduction(name):
        parameters = {n.parameters for n in norms if n.parameters is not None}
        return taken_from(machine, parameters.pop() if len(parameters) == 1 else None, node)
    if not (is_reduction(name) or PASSING.search(name)):
        _mark(machine, reads, "shown" if REPORTING.search(name) else "kept")
    return v.GradientNorm(None, reads, unscaled)


def combined(op: str, left: v.Value, right: v.Value) -> v.GradientNorm:
    """``left op right``, at least one of them a norm."""
    if isinstance(left, v.GradientNorm) and isinstance(right, v.GradientNorm):
        if op == "/":  # a ratio of norms is the same whatever their unit
            return v.GradientNorm(None, frozenset(), left.unscaled)
        return v.GradientNorm(None, _union([left, right]), left.unscaled and right.unscaled)
    norm, other = (left, right) if isinstance(left, v.GradientNorm) else (right, left)
    assert isinstance(norm, v.GradientNorm)
    if op in ("*", "/") and _takes_scale_out(op, other, other is left):
        return v.GradientNorm(norm.parameters, frozenset(), unscaled=True)
    # ``norm + 1e-6`` is still that norm, ``total + norm`` is not.
    is_epsilon = isinstance(other, v.Number) and 0 < other.value < 1
    if op == "+" and not is_epsilon:
        return v.GradientNorm(None, norm.reads, norm.unscaled)
    return norm


def _takes_scale_out(op: str, other: v.Value, reflected: bool) -> bool:
    """Whether a factor makes the norm of scaled gradients a true one: ``norm / scale``, ``max_norm * scale / norm``."""
    flow = flow_of(other)
    unit = other.unit if isinstance(other, v.Number) else flow.parts[0] if flow is not None else PLAIN
    if (
        unit == PLAIN
        and isinstance(other, v.Unknown)
        and re.search(r"(loss|grad|amp)_?scale", text_of(other))
    ):
        return op == "/"
    exponents = sum(exponent for _, exponent in unit.scale)
    return exponents > 0 if op == "/" else exponents < 0 or (reflected and exponents > 0 and unit != Unit())


def use(machine: Machine, value: v.Value | None, how: Use) -> None:
    """Take note of what is done with the norms in a value."""
    norms = list(_norms([value] if value is not None else []))
    _mark(machine, _union(norms), how)


def _mark(machine: Machine, reads: frozenset[int] | None, how: Use) -> None:
    for index in reads or ():
        machine.uses.setdefault(index, set()).add(how)
        site = machine.records[index].event.site
        if how == "clip" and site not in machine.setting.clip_norms:
            # Only in some runs is the limit exceeded: in the others, too, the norm was taken for the clip.
            machine.setting.clip_norms.add(site)
            machine.setting.grown = True


def finished(machine: Machine) -> tuple[Record, ...]:
    """The records of a run, with the use of each norm that was taken."""
    return tuple(
        replace(r, event=replace(r.event, use=_final(machine, r)))  # type: ignore[call-arg]
        if r.index in machine.uses
        else r
        for r in machine.records
    )


def _final(machine: Machine, record: Record) -> str:
    """The use of a norm, or of a derivative, that says most."""
    uses = machine.uses[record.index]
    if record.event.site in machine.setting.clip_norms:
        return "clip"
    return next((how for how in ("penalty", "step", "tested", "shown", "kept") if how in uses), "")


def _norms(values: Iterable[v.Value]) -> Iterable[v.GradientNorm]:
    for value in values:
        match value:
            case v.GradientNorm():
                yield value
            case v.Gradient(parameters=parameters, factor=factor):
                yield v.GradientNorm(parameters, frozenset() if factor.scale else None, bool(factor.scale))
            case v.Seq(items=items) | v.Items(items=items):
                yield from _norms(items)
            case v.DictValue(items=entries):
                yield from _norms(entries.values())
            case _:
                pass


def _union(norms: list[v.GradientNorm]) -> frozenset[int] | None:
    known = [n.reads for n in norms if n.reads is not None]
    return frozenset().union(*known) if known else None
