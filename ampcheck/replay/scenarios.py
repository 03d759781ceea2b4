"""The inputs of a replay: what the loss scale is, and which gradient each micro-batch has.

The probe is a loss ``<p, g>``, so that the gradient of a micro-batch IS g, and every case has a closed form.  No one
scenario is enough: each is the only one that exposes some fault.  Scales are powers of two, so a correct loop's update
is bitwise the same for every scale.  No two gradients of the irregular data are in a simple ratio; the
data of "documents" are those of the literature, whose figures people know: (3, 4), and 1, 2, 3 in a window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CONTROLS",
    "DISABLED",
    "ITEMS",
    "RANKS",
    "SCENARIOS",
    "SHARDS",
    "SMALL",
    "THRESHOLD",
    "Scenario",
    "gradient",
    "start",
]

THRESHOLD = 1.0
"""M where the code does not say it; gradients are chosen to match M."""

WORLD = 2
"""W."""

ITEMS = 5
"""b, the items of a micro-batch: a loss that is their sum is so many times their average."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One input.

    `whole`: the whole run is executed, not only two windows.  `scaled`: pointless without a loss scale.  `stops`: a
    call that torch refuses ends the run.  `infinite` is the number of the owner whose gradient overflows in the second
    micro-batch, whatever the scale.  `growth_interval`: updates after which the scale doubles.  `own`: the optimizers
    are of the loop's own classes.  `enabled`: of the scalers.  `half`: the forward runs in float16, under autocast.
    """

    name: str
    data: Literal["documents", "irregular", "quiet", "huge", "zero", "small"]
    scale: float = 8.0
    growth_interval: int = 1_000_000
    whole: bool = False
    scaled: bool = False
    infinite: int | None = None
    curved: bool = False
    ranks: int = 1
    stops: bool = True
    own: bool = False
    enabled: bool = True
    half: bool = False


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("documents", "documents"),
    Scenario("units", "irregular"),
    Scenario("quiet", "quiet", scale=1024.0),
    Scenario("curved", "quiet", curved=True),
    Scenario("tail", "irregular", whole=True),
    Scenario("growth", "irregular", growth_interval=1, whole=True, scaled=True),
    Scenario("overflow", "irregular", whole=True, scaled=True, infinite=0),
    Scenario("overflow of the second", "irregular", whole=True, scaled=True, infinite=1),
    Scenario("real overflow", "huge", scale=65536.0, whole=True, scaled=True),
)

RANKS = Scenario("ranks", "irregular", ranks=WORLD)
"""Two ranks under DistributedDataParallel, each with gradients of its own."""

SHARDS: tuple[Scenario, ...] = (
    Scenario("shards", "irregular", ranks=WORLD),
    Scenario("shards, overflow", "irregular", ranks=WORLD, scaled=True, infinite=0),
)
"""Two processes that each hold a shard of every model; in the second an overflow that lies in one shard."""

SMALL = Scenario("small", "small", scale=65536.0, half=True)
"""Gradients below the smallest number that float16 has, 2⁻²⁴: only the scale brings them through the backward."""

DISABLED = Scenario("disabled", "irregular", enabled=False)
"""With scalers that do nothing, as ``enabled=False`` makes them, or a machine without CUDA."""

CONTROLS: tuple[Scenario, ...] = (
    Scenario("S = 1", "documents", scale=1.0),
    Scenario("S = 64", "documents", scale=64.0),
    Scenario("g = 0", "zero"),
)
"""Where a fault of scale is to disappear, or to follow the scale."""


def start(scenario: Scenario) -> tuple[float, float]:
    """Where the parameters begin."""
    return (1.0, -2.0) if scenario.curved else (0.0, 0.0)


TRIPLES = ((3.0, 4.0), (5.0, 12.0), (8.0, 15.0))


def gradient(
    scenario: Scenario,
    micro: int,
    nth: int,
    owner: int,
    part: int,
    rank: int,
    window: int,
    threshold: float = THRESHOLD,
) -> tuple[float, float]:
    """The true gradient of an owner's two parameters from the `nth` backward of a micro-batch, one `part` of its loss.

    `owner` numbers the owners of the trace, `window` is K, `threshold` M.
    """
    first, second = _of_one(scenario, micro, nth, owner, part, rank, window)
    size = 1.0 if scenario.data in ("huge", "small") else threshold  # those are at an end of their dtype
    return first * size, second * size


def _of_one(
    scenario: Scenario, micro: int, nth: int, owner: int, part: int, rank: int, window: int
) -> tuple[float, float]:
    """The gradient where M is 1."""
    if scenario.data == "zero":
        return (0.0, 0.0)
    if scenario.data == "documents":
        first, second = _documented(micro, owner, window)
        factor = (1.0 + nth) * (1.0 + 2.0 * part) * (1.0 + 2.0 * rank)
        return (first * factor, second * factor)
    first, second = (_irregular(micro, nth, owner, part, rank, component) for component in (0, 1))
    if scenario.data == "quiet":
        return (first / 64, second / 64)
    if scenario.data == "small":
        return (first / 2**30, second / 2**30)
    if scenario.data == "huge":
        return (first / 20 * 1.6e34, second / 20 * 1.6e34)
    if scenario.infinite == owner and micro == 1 and rank == 0:
        return (math.inf, second)
    return (first, second)


def _documented(micro: int, owner: int, window: int) -> tuple[float, float]:
    if window > 1:
        return (float(micro % window + 1 + owner), 0.0)
    first, second = TRIPLES[owner % len(TRIPLES)]
    return (first * (micro + 1), second * (micro + 1))


def _irregular(*key: int) -> float:
    """A dyadic number between 4 and 20 that has nothing to do with its neighbours."""
    state = 0x9E3779B9
    for number in key:
        state = ((state ^ (number + 0x7F4A7C15)) * 0x85EBCA6B) & 0xFFFFFFFF
        state ^= state >> 15
    state = (state * 0xC2B2AE35) & 0xFFFFFFFF
    return 4.0 + ((state >> 16) & 0x3FF) / 64
