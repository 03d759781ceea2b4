"""The tiny domain of values that a run computes with.

Numbers that matter (loop counters, window lengths) are concrete; everything that cannot be computed is `Unknown`
and keeps its text.  A value that has been through a model carries a `Flow`: the unit it is in by now and the
forward passes behind it, which is all that a backward needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ampcheck import program as p
from ampcheck.events import PLAIN, Forward, Site, SkipTest, Unit
from ampcheck.returns import UNTOLD, Returns

__all__ = [
    "FALSE",
    "NONE",
    "TRUE",
    "Atom",
    "Average",
    "Bound",
    "Class",
    "Const",
    "Context",
    "Cursor",
    "Derivative",
    "DictValue",
    "Flow",
    "Foreign",
    "Formula",
    "Function",
    "Gradient",
    "GradientNorm",
    "Instance",
    "Items",
    "Lib",
    "Method",
    "Model",
    "Namespace",
    "Number",
    "Optimizer",
    "Parameters",
    "Partial",
    "Reading",
    "Scaler",
    "Scheduler",
    "Seq",
    "StepResult",
    "Strided",
    "Truth",
    "Unknown",
    "Value",
]


class Value:
    """Anything a run computes with."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Const(Value):
    """A literal that is not a number: string, None, Ellipsis, bytes."""

    value: Any


@dataclass(slots=True, eq=False, repr=False)
class Truth(Value):
    """A boolean that is known in this run; `boundary` when the window's length went into it."""

    value: bool
    boundary: bool = False
    modulus: str = ""


NONE = Const(None)
TRUE = Truth(True)
FALSE = Truth(False)


@dataclass(slots=True, eq=False, repr=False)
class Number(Value):
    """A number known in this run.

    `unit` holds the known factors in it (K, W, a scale), `symbol` how the code spells it where it stands for a
    quantity the run fixed, `counter` that it counts iterations, `boundary` that it was taken modulo the window;
    `label` is the name of a constant.
    """

    value: int | float
    unit: Unit = PLAIN
    symbol: str = ""
    counter: bool = False
    boundary: bool = False
    label: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Atom(Value):
    """A test that cannot be computed: decided when a run first asks, see `ampcheck.running.choices`.

    `usual` is how it comes out in an uneventful run; nothing certain may rest on how a `doubtful` one does.
    `modulus` names the unknown window of a test like ``i % n == 0``,
    `group` an expression whose equality tests exclude each other; a `monotone` test changes once at most.
    """

    text: str
    varying: bool
    usual: bool = True
    finite: bool = False
    skip: SkipTest | None = None
    modulus: str = ""
    negated: bool = False
    group: tuple[str, Any] | None = None
    monotone: bool = False
    doubtful: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Formula(Value):
    """``left op right`` or ``not left`` over tests, kept until somebody branches on it."""

    op: Literal["and", "or", "not"]
    left: Value
    right: Value | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """What a tensor brings to a backward.

    `undivided`: the records of the derivatives in it that still carried the scale when they became part of it.
    """

    parts: tuple[Unit, ...] = (PLAIN,)
    forwards: tuple[Forward, ...] = ()
    reduction: Literal["mean", "sum", "unknown"] = "unknown"
    detached: bool = False
    undivided: frozenset[int] = frozenset()

    def times(self, factor: Unit, sign: int = 1) -> Flow:
        """Every part multiplied (or divided) by a factor."""
        return replace(self, parts=tuple(u.times(factor, sign) for u in self.parts))

    def plus(self, other: Flow) -> Flow:
        """The sum of two tensors: the parts of both, like units once."""
        parts = tuple(dict.fromkeys(self.parts + other.parts))
        forwards = tuple(dict.fromkeys(self.forwards + other.forwards))
        reduction = self.reduction if self.reduction == other.reduction else "unknown"
        undivided = self.undivided | other.undivided
        return Flow(parts, forwards, reduction, self.detached and other.detached, undivided)


@dataclass(slots=True, eq=False, repr=False)
class Unknown(Value):
    """A value that cannot be computed.

    `varying`: it differs between micro-batches.  `offset`: an integer was added to it.  `attributes` remembers what
    was read from or stored on it, so that ``trainer.optimizer`` is one object; `role` is what it turned out to be.
    An attribute remembers whose it is (`base`, `member`): it may be a method.  `returns` is what calling it gives.
    """

    text: str
    varying: bool = False
    flow: Flow | None = None
    offset: int = 0
    argument: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    role: Value | None = None
    modulus: str = ""
    base: Value | None = None
    member: str = ""
    returns: Returns = UNTOLD


@dataclass(slots=True, eq=False, repr=False)
class Foreign(Value):
    """An object that another library's engine owns (``accelerator.prepare(...)``): nothing is said of it here."""

    text: str


@dataclass(slots=True, eq=False, repr=False)
class Lib(Value):
    """Something imported, by its dotted name."""

    name: str


@dataclass(slots=True, eq=False, repr=False)
class Namespace(Value):
    """A module of the project or of a library model, by its dotted name and file."""

    name: str
    path: str


@dataclass(slots=True, eq=False, repr=False)
class Cursor:
    """How far an iterator has got.

    `state` is empty until something has consumed it, at `at`; one that is made from others (``filter``, ``chain``)
    consumes its `sources`.  `guessed`: it may have been made anew since, where this run does not look.  `trial` is the
    trial of two arms that it was made in.
    """

    sources: tuple[Cursor, ...] = ()
    state: dict[str, Value] = field(default_factory=dict)
    at: Site | None = None
    guessed: bool = False
    trial: object = None


@dataclass(slots=True, eq=False, repr=False)
class Parameters(Value):
    """Parameters of models: all of them, or some (`partial`).

    `each` marks the single parameter of a loop over them.  `cursor`: they come from an iterator (``filter(...)``,
    ``model.parameters()``), which can be gone through once.
    """

    models: tuple[str, ...]
    partial: bool = False
    each: bool = False
    text: str = ""
    cursor: Cursor | None = None


@dataclass(slots=True, eq=False, repr=False)
class Gradient(Value):
    """The ``.grad`` of parameters, or (with an `effect`, see `events.Edit`) what was computed from it.

    The effect "clip" is a multiplication by a coefficient that was taken from the gradients' norm (`local`: from
    each parameter's own); `at` is where the effect was computed.
    """

    parameters: Parameters
    effect: Literal["", "multiply", "shift", "nonlinear", "hide", "clip", "clamp"] = ""
    factor: Unit = PLAIN
    at: Site | None = None
    local: bool = False


@dataclass(slots=True, eq=False, repr=False)
class GradientNorm(Value):
    """A number taken from gradients: of these parameters, None when it sums up over many.

    `reads` are the records where it was taken, None for what is not a number yet (a list of gradients, their squares).
    `unscaled`: the loss scale was divided out of it, while the gradients may still carry it.
    """

    parameters: Parameters | None
    reads: frozenset[int] | None = None
    unscaled: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Derivative(Value):
    """What ``autograd.grad`` of a scaled loss returned, one tensor standing for all, or what was computed from it.

    `record` is where it was taken, `flow` what was differentiated there, without its scale; `unit` the scale in it.
    """

    record: int
    flow: Flow
    unit: Unit
    text: str = "a derivative"


@dataclass(slots=True, eq=False, repr=False)
class Scaler(Value):
    """A loss scaler; `enabled` is a test."""

    id: str
    enabled: Value
    known: bool = True


@dataclass(slots=True, eq=False, repr=False)
class Reading(Value):
    """What ``get_scale()`` returned."""

    scaler: str
    index: int


@dataclass(slots=True, eq=False, repr=False)
class StepResult(Value):
    """What ``scaler.step(optimizer)`` returned: None, whether the step was done or skipped."""

    scaler: str
    optimizer: str


@dataclass(slots=True, eq=False, repr=False)
class Optimizer(Value):
    """An optimizer and whose parameters it holds (None: unknown)."""

    id: str
    parameters: Parameters | None = None
    known: bool = True


@dataclass(slots=True, eq=False, repr=False)
class Scheduler(Value):
    """A learning-rate scheduler."""

    id: str
    optimizers: tuple[str, ...] = ()
    counts: Literal["updates", "batches", "epochs", "metric", "unknown"] = "unknown"


@dataclass(slots=True, eq=False, repr=False)
class Average(Value):
    """A moving average of weights."""

    id: str


@dataclass(slots=True, eq=False, repr=False)
class Model(Value):
    """A model; `instance` is its own class where that is seen.

    `wrapper` is "ddp", "fsdp..." (see `events.Build`) or ""; `bypassed` marks ``ddp.module``.  `returns` is what its
    forward gives back.
    """

    id: str
    wrapper: str = ""
    bypassed: bool = False
    instance: Instance | None = None
    returns: Returns = UNTOLD


@dataclass(slots=True, eq=False, repr=False)
class Context(Value):
    """A context manager that matters: "no_sync" (of `role`), "autocast", "no_grad", "null".

    An autocast has a `dtype` ("" when unknown) and `device`; it is on where `enabled` is (None: always).
    """

    kind: Literal["no_sync", "autocast", "no_grad", "null"]
    role: str = ""
    dtype: str = ""
    device: str = ""
    enabled: Value | None = None


@dataclass(slots=True, eq=False, repr=False)
class Function(Value):
    """A function with the frame it closes over."""

    node: p.FunctionDef | p.Lambda
    frame: Any
    owner: Class | None = None


@dataclass(slots=True, eq=False, repr=False)
class Bound(Value):
    """A method bound to its object."""

    function: Function
    self: Value


@dataclass(slots=True, eq=False, repr=False)
class Partial(Value):
    """``functools.partial``, or a method of a value that is called later."""

    call: Value
    arguments: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Method(Value):
    """A method of a value of this domain, not called yet."""

    receiver: Value
    name: str


@dataclass(slots=True, eq=False, repr=False)
class Class(Value):
    """A class of the project."""

    node: p.ClassDef
    frame: Any
    members: dict[str, Value] = field(default_factory=dict)
    bases: tuple[Value, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Instance(Value):
    """An object of a class of the project."""

    cls: Class
    id: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Seq(Value):
    """A tuple, list or set whose items are known."""

    kind: str
    items: list[Value]


@dataclass(slots=True, eq=False, repr=False)
class DictValue(Value):
    """A dict with literal keys."""

    items: dict[Any, Value]


@dataclass(slots=True, eq=False, repr=False)
class Items(Value):
    """Something to iterate over.

    `kind`: "data" (a loader: as many items as the run gives an epoch), "range" (`length` iterations from `start` by
    `step`), "window" (``range(k)``), "enumerate", "zip", "slice" (at most `length`), "items" (known `items`).
    `cursor` is the position of an iterator that `next` is called on.  `stride` and `stop` spell the bounds of
    ``range(0, n, step)`` where they are not known.
    """

    kind: str
    text: str = ""
    inner: tuple[Value, ...] = ()
    start: int = 0
    step: int = 1
    length: int | None = None
    items: list[Value] = field(default_factory=list)
    cursor: list[int] = field(default_factory=lambda: [0])
    window: str = ""
    stride: str = ""
    stop: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Strided(Value):
    """``i`` of ``for i in range(0, n, step)`` with unknown bounds: `index` strides of `length` are behind it."""

    index: int
    length: int
    stride: str
    stop: str
    text: str = "i"
