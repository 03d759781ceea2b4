"""Names for ratios: a gradient that is eight times too large is "× S" when S is 8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ampcheck.replay.scenarios import ITEMS, THRESHOLD, WORLD

__all__ = ["Known", "bound_name", "factor_name", "number"]

SUPERSCRIPTS = {1: "", 2: "²", 3: "³"}


@dataclass(frozen=True, slots=True)
class Known:
    """What a factor may be made of: S, K, how many scalers there are; `clips` and `ranks`: M and W play a part.

    `moving`: the loss scale doubles or halves during the run.  `nameless`: no factor is to be named.
    `items`: so does b, the number of items in a micro-batch.  `thresholds`: every M.
    """

    scale: float
    window: int
    scalers: int = 1
    clips: bool = False
    ranks: bool = False
    moving: bool = False
    nameless: bool = False
    items: bool = False
    thresholds: tuple[float, ...] = (THRESHOLD,)


def number(value: float) -> str:
    """A figure as people write it: five significant digits, and ``6.0`` for a whole one."""
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.5g}"
    return text if any(c in text for c in ".e") else f"{text}.0"


def factor_name(ratio: float, known: Known) -> str:
    """The simplest product of powers of S, K and W that a ratio equals; empty where there is none."""
    if known.nameless or not math.isfinite(ratio) or ratio <= 0 or math.isclose(ratio, 1.0, rel_tol=1e-4):
        return ""
    if known.scalers > 1:
        for value, name in ((0.25, "S₁/S₂"), (4.0, "S₂/S₁")):
            if math.isclose(ratio, value, rel_tol=1e-4):
                return name
    for s, k, w in _exponents(known):
        value = known.scale**s * float(known.window) ** k * float(WORLD) ** w
        if math.isclose(ratio, value, rel_tol=1e-4):
            return _product({"S": s, "K": k, "W": w})
    plain = {"√2": math.sqrt(2)} | ({"b": float(ITEMS)} if known.items else {})
    plain |= {"2": 2.0, "1/2": 0.5} if known.moving else {}
    return next((name for name, value in plain.items() if math.isclose(ratio, value, rel_tol=1e-4)), "")


def _exponents(known: Known) -> list[tuple[int, int, int]]:
    window = range(-2, 3) if known.window > 1 else range(1)
    scale = range(-3, 4) if known.scale != 1.0 and known.scalers else range(1)
    world = range(-1, 2) if known.ranks else range(1)
    found = [(s, k, w) for s in scale for k in window for w in world if s or k or w]
    return sorted(found, key=lambda e: (abs(e[0]) + abs(e[1]) + 2 * abs(e[2]), -abs(e[0]), e))


def _product(exponents: Mapping[str, int]) -> str:
    over = [n + SUPERSCRIPTS[e] for n, e in exponents.items() if e > 0]
    under = [n + SUPERSCRIPTS[-e] for n, e in exponents.items() if e < 0]
    if not under:
        return "·".join(over)
    return f"{'·'.join(over) or '1'}/{'·'.join(under)}"


def bound_name(factor: str) -> str:
    """A factor of M: "M/S" for "1/S", "M·K" for "K"; empty for none."""
    if not factor:
        return ""
    if factor.startswith("1/"):
        return f"M{factor[1:]}"
    return f"{factor}·M"
