"""The alphabet of events: everything a training step does that ampcheck has an opinion on.

A run of a training loop is a sequence of these events (see `ampcheck.trace`).  The static runner derives
them from source, the replay executes them on real tensors, and every rule reads nothing else.

Roles (scalers, optimizers, models, schedulers, averages) appear as identifiers: short strings that are unique
within a trace and equal to the name the user gave the object wherever that is unique.  An *owner* is whoever
owns a gradient buffer: an optimizer's identifier, or `"free:<model>"` for parameters no optimizer holds.

Units: a gradient or loss carries ``S^a * K^b * W^c`` (loss scale, window length, world size), see `Unit`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Autocast",
    "AverageUpdate",
    "Backward",
    "Build",
    "Clip",
    "Convert",
    "Deprecated",
    "Edit",
    "EngineCall",
    "Escape",
    "Event",
    "Forward",
    "Jump",
    "Loss",
    "Read",
    "ReadScale",
    "Reduce",
    "ScheduleStep",
    "Site",
    "SkipTest",
    "Step",
    "Unit",
    "Unscale",
    "Update",
    "ZeroGrad",
]


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A place in source: 1-based lines and columns; the end is exclusive of its column."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a loss or gradient: which known factors were multiplied in, and how often.

    `scale` pairs each loss scaler with its exponent (zero exponents are left out, sorted by scaler);
    `window` is the exponent of K (a division by K gives -1) and `world` that of W.
    `other` names factors that are neither (``/ num_tokens``): they normalise in a way the code alone cannot settle.
    """

    scale: tuple[tuple[str, int], ...] = ()
    window: int = 0
    world: int = 0
    other: frozenset[str] = frozenset()

    def times(self, factor: Unit, sign: int = 1) -> Unit:
        """The product of two units; the quotient when `sign` is -1."""
        if factor == PLAIN:
            return self
        exponents = dict(self.scale)
        for scaler, exponent in factor.scale:
            exponents[scaler] = exponents.get(scaler, 0) + sign * exponent
        return Unit(
            tuple(sorted((s, e) for s, e in exponents.items() if e)),
            self.window + sign * factor.window,
            self.world + sign * factor.world,
            self.other | factor.other,
        )

    def scaled_by(self, scaler: str) -> int:
        """The exponent of one scaler's scale."""
        return dict(self.scale).get(scaler, 0)

    @property
    def is_scaled(self) -> bool:
        """Whether any loss scale is still in it."""
        return bool(self.scale)

    def __str__(self) -> str:
        marks = {1: "", 2: "²", 3: "³", -1: "⁻¹", -2: "⁻²"}
        names = ("S",) if len(self.scale) < 2 else tuple(f"S({s})" for s, _ in self.scale)
        pairs = [(name, e) for name, (_, e) in zip(names, self.scale, strict=False)]
        pairs += [("K", self.window), ("W", self.world)]
        over = [name + marks.get(e, f"^{e}") for name, e in pairs if e > 0]
        under = [name + marks.get(-e, f"^{-e}") for name, e in pairs if e < 0]
        text = " · ".join(over) or "1"
        return f"{text} / {' · '.join(under)}" if under else text


PLAIN = Unit()


@dataclass(frozen=True, slots=True)
class Forward:
    """One pass through a model on the way to a loss (not an event of its own: it travels with the loss).

    `wrapper` is how the model is wrapped ("ddp", "fsdp" or ""); `bypassed` says that the pass went around the
    wrapper (``ddp.module(x)``); `synced` is false when the pass ran inside ``no_sync``.
    """

    model: str
    wrapper: str = ""
    bypassed: bool = False
    synced: bool = True


@dataclass(frozen=True, slots=True)
class Loss:
    """What a backward differentiates: a sum of parts, each with its unit (usually one part)."""

    parts: tuple[Unit, ...] = (PLAIN,)
    reduction: Literal["mean", "sum", "unknown"] = "unknown"
    forwards: tuple[Forward, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a place in the source."""

    site: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Event):
    """Gradients of `loss` are added to the buffers of the owners it reaches.

    `assumed` names those owners that are reached only as far as one can tell (several optimizers, and a loss
    whose origin is unknown).  `synced` is false inside ``no_sync`` or with a hand-written switch off.
    `micro` numbers the micro-batch within the run, from 0.
    """

    loss: Loss
    reaches: tuple[str, ...]
    micro: int
    assumed: tuple[str, ...] = ()
    synced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscale(Event):
    """``scaler.unscale_(optimizer)``."""

    scaler: str
    optimizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Event):
    """Gradients are bounded: by total norm, by value, or by code that does the same by hand.

    `whole` is false when only some of the owners' parameters are clipped; `per_parameter` when a loop clips each
    parameter or layer on its own norm with the whole threshold.  `threshold` is None when it is not a literal.
    """

    style: Literal["norm", "value"]
    owners: tuple[str, ...]
    by: Literal["torch", "hand", "hook"] = "torch"
    threshold: float | None = None
    whole: bool = True
    per_parameter: bool = False
    error_if_nonfinite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Event):
    """Gradients are changed by hand.

    ``multiply``: by `factor` (the unit PLAIN where it is a mask or another plain number); ``shift``: something is
    added; ``nonlinear``: sign, normalisation, quantisation; ``hide``: non-finite values are replaced.
    """

    effect: Literal["multiply", "shift", "nonlinear", "hide"]
    owners: tuple[str, ...]
    factor: Unit = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Event):
    """A norm, mean or element of gradients is taken (a test for finiteness is not a read)."""

    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """An optimizer updates its parameters, through a scaler (``scaler.step(optimizer)``) or raw."""

    optimizer: str
    scaler: str | None = None
    closure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Event):
    """``scaler.update()``; `explicit` when a new scale is given, which is legal at any time."""

    scaler: str
    explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGrad(Event):
    """The owners' gradients are cleared, to None or to zeros."""

    owners: tuple[str, ...]
    to_none: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep(Event):
    """``scheduler.step()``; `counts` is what the schedule is counted in, as far as its class tells."""

    scheduler: str
    optimizers: tuple[str, ...] = ()
    counts: Literal["updates", "epochs", "metric", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageUpdate(Event):
    """A moving average of weights (EMA, SWA, teacher) takes in the current weights."""

    average: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScale(Event):
    """``scaler.get_scale()``; `reading` numbers the readings of a run, so that tests can name them."""

    scaler: str
    reading: int


@dataclass(frozen=True, slots=True)
class SkipTest:
    """A comparison of two readings of the scale, meant to tell whether the step was skipped.

    Holds when ``left op right``, with `op` one of ``< <= == != >= >`` and `left`/`right` numbers of readings.
    """

    scaler: str
    left: int
    op: str
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Event):
    """Gradients are reduced over ranks by hand (``dist.all_reduce(p.grad)``)."""

    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump(Event):
    """``continue``, ``break``, ``return`` or ``raise`` under a guard: the rest of the iteration does not run."""

    kind: Literal["continue", "break", "return", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Autocast(Event):
    """An autocast region is entered; `dtype` is "float16", "bfloat16" or "" when unknown."""

    dtype: str
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Event):
    """A model's parameters are cast (``model.half()``)."""

    model: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Build(Event):
    """A scaler, optimizer, scheduler, average or wrapper is constructed."""

    kind: Literal["scaler", "optimizer", "scheduler", "average", "wrapper"]
    role: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecated(Event):
    """A deprecated name is used; `instead` is what to write."""

    name: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall(Event):
    """A library's engine is called: its own protocol has rules that gradients do not show.

    `library` and `call` name it ("deepspeed", "step"), `roles` are the objects concerned.
    """

    library: str
    call: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape(Event):
    """Roles are handed to code that cannot be seen: nothing certain can be said of them until they are zeroed.

    Scalers appear as ``"S:<scaler>"``, and models that may be frozen or unfrozen there as ``"M:<model>"``.
    """

    roles: tuple[str, ...] = field(default=())
    into: str = ""
