"""What a rule is: a named fault, and one method that finds it in a trace.

    class ClipBeforeUnscale(Rule):
        '''Gradients are clipped while they still carry the loss scale. ...'''

        code = "AMP101"
        name = "clip-before-unscale"
        severity = "error"
        oracle = ("gradient", "clip-norm")
        hint = "call scaler.unscale_(optimizer) before the clip"

        def check(self, trace: Trace) -> Iterator[Violation]:
            for record, clip in trace.of(Clip):
                ...
                yield Violation(record.index, "...")

A rule reads traces only: it never sees libcst, torch or another rule.  The docstring is its documentation
page (Markdown, with the headings that `docs/adding-a-rule.md` lists).  Whether a violation is *certain* is decided
over all runs in `ampcheck.verdict`; a rule lowers it with `certain=False` where it leans on a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from ampcheck.events import Site
from ampcheck.trace import Trace

__all__ = ["OBSERVABLES", "Habit", "Measured", "Observable", "Rule", "Severity", "Violation"]

Severity = Literal["error", "warning", "note"]

Observable = Literal[
    "exception",  # torch raises, or not
    "warning",  # torch warns, or not
    "steps",  # optimizer steps that really happened, per optimizer
    "schedule",  # scheduler steps, per scheduler
    "rates",  # learning rate in force at each optimizer step
    "scale",  # trajectory of the loss scale
    "saved-scale",  # loss scale in a state_dict
    "syncs",  # all-reduces per window
    "divergence",  # ranks end with different gradients at the step
    "shards",  # scale, steps, gradient and parameters, on two processes that each hold a shard
    "gradient",  # gradient at the optimizer's step (step pre-hook): ratio and cosine
    "clip-norm",  # norm handed to the clip
    "read-norm",  # norm inspected
    "derivative",  # norm of what autograd.grad gave, where it is used
    "skip-test",  # what the code's own test says of each step: done or skipped
    "decay",  # updates of a moving average per optimizer step
    "windows",  # micro-batches per optimizer step
    "dtype",  # that of a recompute
    "parameters",  # final parameters (also: not finite)
]
OBSERVABLES: tuple[str, ...] = Observable.__args__  # type: ignore[attr-defined]

Habit = Literal[
    "carry",  # an epoch's leftover micro-batches stay in the gradients of the next epoch's first window
    "sum",  # a loss that is a sum over the micro-batch's items is divided by K alone
    "stray",  # a step uses gradients that another optimizer's loss left in its parameters
    "unscaled",  # a loss computed in float16 has no scale
]
"""What a loop may do as it likes, so that the replay's reference does it too, unless it is the very fault."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a test of a library's model measured with the library itself, for an engine that the replay cannot run.

    `engine` is how the names of such engines begin (`ampcheck.trace.Role.engine`), `says` the line for people, with
    its figures, `where` the library's version and the test.
    """

    engine: str
    says: str
    where: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a trace breaks a rule.

    `record` is the index of the event to report, `steps` the other records worth showing (the story, in order),
    `predicts` the figure that the rule's formula gives for an observable at S = 8, as text ("1/S", "K", "S").
    `site` is where it is reported when the mistake is not at the event but in the test that it waits for; `severity`
    is given where this one is less than the rule says.
    """

    record: int
    message: str
    steps: tuple[int, ...] = ()
    certain: bool = True
    predicts: str = ""
    site: Site | None = None
    severity: Severity | None = None


class Rule:
    """Base of all rules; see the module's docstring for the protocol.

    `oracle` names the observables of which at least one must deviate from the reference for a finding to be
    confirmed, in the order of preference; empty when the fault has no trace that a replay could observe, and then
    `unobservable` says why.  `measured` stands for a replay where the loop is an engine's own.  `contests` names the
    habits of a loop that are the fault itself, so that no acceptable reference has them.  A rule that is `opt_in` is
    off unless it is selected.  `of_loop`: the fault is the loop's, whichever helper's line it shows at.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    oracle: ClassVar[tuple[Observable, ...]] = ()
    unobservable: ClassVar[str] = ""
    measured: ClassVar[tuple[Measured, ...]] = ()
    contests: ClassVar[tuple[Habit, ...]] = ()
    opt_in: ClassVar[bool] = False
    of_loop: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the violations of one trace."""
        raise NotImplementedError
