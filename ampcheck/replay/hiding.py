"""Whether the loop's own optimizer hides a fault: what its parameters make of gradients that are wrong.

Adam and its relatives divide a gradient by its own size, so that a factor in it hardly reaches the parameters: a model
trains, and the fault shows elsewhere (in clipping, in the epsilon, when the scale moves).  SGD decides; this says what
the loop's own optimizer would have shown.
"""

from __future__ import annotations

from ampcheck.replay.factors import number
from ampcheck.replay.observe import Observed, norm
from ampcheck.replay.scenarios import Scenario, start

__all__ = ["ADAPTIVE", "difference", "in_words"]

ADAPTIVE = frozenset(
    {"Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop"}
)
"""The classes of torch.optim that divide a gradient by a measure of its size."""

VISIBLE = 0.01
"""From which part of an update on a difference is no longer hidden: less is lost among what batches differ by."""


def difference(user: Observed, reference: Observed, optimizer: str, scenario: Scenario) -> float | None:
    """How far the user's parameters end from the reference's, relative to the latter's whole update.

    None where there is nothing to compare: no update, or one that is not finite.
    """
    mine, right = user.parameters.get(optimizer, []), reference.parameters.get(optimizer, [])
    update = norm([p - s for p, s in zip(right, start(scenario), strict=False)])
    apart = norm([a - b for a, b in zip(mine, right, strict=False)])
    ratio = apart / update if update else float("nan")
    return ratio if ratio == ratio and ratio != float("inf") else None


def in_words(name: str, ratio: float) -> str:
    """ "AdamW's parameters hide it (they differ by 1.5e-05 of the update)"."""
    does = "hide it" if ratio < VISIBLE else "show it too"
    return f"{name}'s parameters {does}: they differ by {number(ratio)} of the update"
