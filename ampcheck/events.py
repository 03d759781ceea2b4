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
    "Checkpoint",
    "Clip",
    "Convert",
    "Deprecated",
    "Differentiate",
    "Edit",
    "EngineCall",
    "Escape",
    "Event",
    "Forward",
    "Internal",
    "Jump",
    "Loss",
    "Precision",
    "Read",
    "ReadScale",
    "Recompute",
    "Reduce",
    "ResultTest",
    "ScheduleStep",
    "Site",
    "SkipTest",
    "StateDict",
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

    `wrapper` is how the model is wrapped ("ddp", "fsdp...", see `Build`, or ""); `bypassed` says that the pass went
    around the wrapper (``ddp.module(x)``); `synced` is false when the pass ran inside ``no_sync``.
    `autocast` is the dtype of the autocast that the pass ran under ("?" when unknown, "" for none), `option` the test
    that enables it, where this run has not decided it.
    """

    model: str
    wrapper: str = ""
    bypassed: bool = False
    synced: bool = True
    autocast: str = ""
    option: str = ""


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
    `micro` numbers the micro-batch within the run, from 0.  `autocast` is that which the backward itself runs under,
    as for a `Forward`.  `found`: stands for one that the caller made of a function that only holds the rest of a step.
    """

    loss: Loss
    reaches: tuple[str, ...]
    micro: int
    assumed: tuple[str, ...] = ()
    synced: bool = True
    autocast: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscale(Event):
    """``scaler.unscale_(optimizer)``."""

    scaler: str
    optimizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Event):
    """Gradients are bounded: by total norm, by value, or by code that does the same by hand.

    `by` is "model" for FSDP's own ``model.clip_grad_norm_``.  `whole` is false when only some of the owners' parameters
    are clipped; `per_parameter` when a loop clips each parameter or layer on its own norm with the whole threshold.
    `threshold` is None when it is not a literal.
    `exhausted`: it is given an iterator that was consumed there before, so that it finds no parameters at all;
    `assumed` that the iterator may have been made anew since.
    """

    style: Literal["norm", "value"]
    owners: tuple[str, ...]
    by: Literal["torch", "hand", "hook", "model"] = "torch"
    threshold: float | None = None
    whole: bool = True
    per_parameter: bool = False
    error_if_nonfinite: bool = False
    exhausted: Site | None = None
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Event):
    """Gradients are changed by hand.

    ``multiply``: by `factor` (the unit PLAIN where it is a mask or another plain number); ``shift``: something is
    added; ``nonlinear``: sign, normalisation, quantisation; ``hide``: non-finite values are replaced.
    `partial`: only those of some parameters, picked one by one (experts, biases).
    `latest`: only those contributions are multiplied that carry the scale which the factor divides out (apex).
    """

    effect: Literal["multiply", "shift", "nonlinear", "hide"]
    owners: tuple[str, ...]
    factor: Unit = PLAIN
    partial: bool = False
    latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Event):
    """A norm, mean or element of gradients is taken.

    `use` says what for: it is "shown" (logged), "tested" (a branch depends on it), "kept" for code that is not to be
    seen, or the coefficient of a "clip"; empty where it is only tested for finiteness, or never looked at.
    `exhausted` and `assumed` are those of a clip: what is read is nothing.
    """

    owners: tuple[str, ...]
    use: Literal["", "shown", "tested", "kept", "clip"] = "shown"
    exhausted: Site | None = None
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """An optimizer updates its parameters, through a scaler (``scaler.step(optimizer)``) or raw.

    `closure`: it is given one, or something that may be one.  `passed` says how, where it certainly is one.
    """

    optimizer: str
    scaler: str | None = None
    closure: bool = False
    passed: Literal["", "keyword", "positional"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTest(Event):
    """What ``scaler.step(optimizer)`` returned decides something.

    `asks` is "outcome" in a correct loop only: whether the step was really done, however it finds out.
    """

    scaler: str
    optimizer: str
    asks: Literal["result", "outcome"] = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Event):
    """``scaler.update()``; `explicit` when a new scale is given, which is legal at any time."""

    scaler: str
    explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Differentiate(Event):
    """``torch.autograd.grad`` of a scaled loss, whose result carries the scale until somebody divides by it.

    `use` says what became of it with the scale still in: it is part of a loss ("penalty"), or subtracted from
    parameters ("step"); empty where it was divided first, or where that cannot be told.
    """

    loss: Loss
    owners: tuple[str, ...] = ()
    use: Literal["", "penalty", "step"] = ""


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
    counts: Literal["updates", "batches", "epochs", "metric", "unknown"] = "unknown"


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
    """A scaler, optimizer, scheduler, average or wrapper is constructed.

    `detail` is the class; of a wrapper "ddp", "fsdp" (of an unknown make), "fsdp1", "fsdp1?" (the sharding strategy
    is not known) or "fsdp1 NO_SHARD", each of the last three with " use_orig_params" (or " use_orig_params?", not
    known) where it keeps the parameters, or "fsdp2".
    """

    kind: Literal["scaler", "optimizer", "scheduler", "average", "wrapper"]
    role: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDict(Event):
    """``scaler.state_dict()`` while a step of the scaler is not followed by its update yet."""

    scaler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Event):
    """The state of a model and of `optimizers` is written to a file, and that of no scaler to any.

    It stands at the end of its trace, wherever in the run it is written: it is read from the program's text.  It is
    not `sure` where somebody else may add to it.
    """

    optimizers: tuple[str, ...]
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute(Event):
    """The backward of an ``autograd.Function`` recomputes its forward, outside autocast.

    `autocast` is the dtype of the autocast that its forward ran under, "" where none can be seen; `function` its class.
    """

    function: str
    autocast: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecated(Event):
    """A deprecated name is used; `instead` is what to write."""

    name: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision(Event):
    """A configuration says whether there is float16 or bfloat16 mixed precision, None where it leaves that open.

    `owner` is who says so ("TrainingArguments", "ds_config.json"), `kind` what that is, and `within` the owner of the
    configuration that it is given to.  `sure` is false for a file that may belong to another script.
    """

    owner: str
    kind: Literal["deepspeed", "accelerate", "accelerator", "arguments"]
    fp16: bool | None = None
    bf16: bool | None = None
    within: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall(Event):
    """A library's engine is called: its own protocol has rules that gradients do not show.

    `library` and `call` name it ("deepspeed", "step"), `roles` are the objects concerned.
    """

    library: str
    call: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Internal(Event):
    """A private attribute of a loss scaler is read, or `written`."""

    scaler: str
    name: str
    written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape(Event):
    """Roles are handed to code that cannot be seen: nothing certain can be said of them until they are zeroed.

    Scalers appear as ``"S:<scaler>"``, and models that may be frozen or unfrozen there as ``"M:<model>"``.
    """

    roles: tuple[str, ...] = field(default=())
    into: str = ""
