"""What a replay observes, and when two observations of the same script's inputs differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from ampcheck.rule import OBSERVABLES

__all__ = ["Observed", "deviations", "norm", "same"]

Vector = list[float]

TOLERANCE = 1e-5
"""Relative.  The measured error of a correct loop is below 3e-7, that of every fault of order above 1e-2."""


@dataclass(slots=True)
class Observed:
    """One execution of one script in one scenario.

    `exception` is torch's message, `exception_at` its micro-batch; `stopped` says that the run ended there.
    By optimizer: `steps` that really happened,
    `gradient` and `rates` at each, `carried` the gradient there before it was unscaled, `windows` the micro-batches
    since the previous step, `skip_test` what a test of its outcome found: what was so, and what the code took for it.
    `scale`, by scaler, is relative to its first value and sampled wherever it scales a loss
    and at the end.  `dtype` is that of each recompute.  `clip_norm`, `read_norm` and the norm of a
    `derivative` come with their micro-batch.  `syncs` counts all-reduces by owner;
    `saved_scale` is the scale in a scaler's state, relative as well, with its micro-batch.
    `divergence` is the largest difference between ranks at a step.
    """

    exception: str = ""
    exception_at: int = -1
    stopped: bool = False
    warning: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    schedule: dict[str, int] = field(default_factory=dict)
    rates: dict[str, Vector] = field(default_factory=dict)
    scale: dict[str, Vector] = field(default_factory=dict)
    saved_scale: list[tuple[int, float]] = field(default_factory=list)
    syncs: dict[str, int] = field(default_factory=dict)
    divergence: float = 0.0
    gradient: dict[str, list[Vector]] = field(default_factory=dict)
    carried: dict[str, list[Vector]] = field(default_factory=dict)
    clip_norm: list[tuple[int, float]] = field(default_factory=list)
    read_norm: list[tuple[int, float]] = field(default_factory=list)
    dtype: list[str] = field(default_factory=list)
    derivative: list[tuple[int, float]] = field(default_factory=list)
    skip_test: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    decay: dict[str, int] = field(default_factory=dict)
    windows: dict[str, list[int]] = field(default_factory=dict)
    parameters: dict[str, Vector] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it."""
        return asdict(self)


def norm(vector: Sequence[float]) -> float:
    """The Euclidean norm."""
    return math.hypot(*vector)


def same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two vectors agree, relative to the larger; infinities and NaN agree with each other."""
    if len(one) != len(other):
        return False
    finite = [abs(x) for x in (*one, *other) if math.isfinite(x)]
    allowed = TOLERANCE * max(finite, default=0.0)
    return all(
        abs(a - b) <= allowed
        if math.isfinite(a) and math.isfinite(b)
        else math.isfinite(a) == math.isfinite(b)
        for a, b in zip(one, other, strict=True)
    )


def deviations(user: Observed, reference: Observed) -> frozenset[str]:
    """The observables in which the user's loop differs from one reference."""
    stopped = user.stopped
    found = {
        "exception": user.exception != reference.exception,
        "warning": user.warning != reference.warning,
        "steps": user.steps != reference.steps,
        "schedule": user.schedule != reference.schedule,
        "rates": _series(user.rates, reference.rates, stopped),
        "scale": _series(user.scale, reference.scale, stopped),
        "saved-scale": _readings(user.saved_scale, reference.saved_scale, stopped),
        "syncs": user.syncs != reference.syncs and not stopped,
        "divergence": user.divergence > max(TOLERANCE, 2 * reference.divergence),
        "shards": False,  # stands for others, see `ampcheck.replay.judge`
        "gradient": _vectors(user.gradient, reference.gradient, stopped),
        "clip-norm": _readings(user.clip_norm, reference.clip_norm, stopped),
        "read-norm": _readings(user.read_norm, reference.read_norm, stopped),
        "dtype": user.dtype != reference.dtype and not stopped,
        "derivative": _readings(user.derivative, reference.derivative, stopped),
        "skip-test": any(_is_blind(tests) for tests in user.skip_test.values()),
        "decay": user.decay != reference.decay and not stopped,
        "windows": _series(user.windows, reference.windows, stopped),
        "parameters": not stopped and _parameters(user.parameters, reference.parameters),
    }
    return frozenset(name for name in OBSERVABLES if found[name])


def _series(
    user: Mapping[str, Sequence[float]], reference: Mapping[str, Sequence[float]], stopped: bool
) -> bool:
    """Whether one of several series differs; where the user's run was stopped, as far as it went."""
    return any(
        not all(
            same([a], [b]) if a is not None and b is not None else stopped and a is None
            for a, b in zip_longest(user.get(key, ()), reference.get(key, ()))
        )
        for key in {*user, *reference}
    )


def _vectors(
    user: Mapping[str, Sequence[Vector]], reference: Mapping[str, Sequence[Vector]], stopped: bool
) -> bool:
    return any(
        not all(
            same(a, b) if a is not None and b is not None else stopped and a is None
            for a, b in zip_longest(user.get(key, ()), reference.get(key, ()))
        )
        for key in {*user, *reference}
    )


def _readings(user: list[tuple[int, float]], reference: list[tuple[int, float]], stopped: bool) -> bool:
    """Compared where both have one in the same micro-batch; a norm can be read anywhere, or more often."""
    expected: dict[int, list[float]] = {}
    for micro, value in reference:
        expected.setdefault(micro, []).append(value)
    found: dict[int, list[float]] = {}
    for micro, value in user:
        found.setdefault(micro, []).append(value)
    return any(
        not same([a], [b])
        for micro in found
        if micro in expected
        for a, b in zip(found[micro], expected[micro], strict=False)
    )


def _is_blind(tests: Sequence[tuple[str, str]]) -> bool:
    """Whether steps that were done and steps that were skipped look the same to a test."""
    outcomes = {outcome: {said for one, said in tests if one == outcome} for outcome, _ in tests}
    return len(outcomes) > 1 and bool(set.intersection(*outcomes.values()))


def _parameters(user: Mapping[str, Vector], reference: Mapping[str, Vector]) -> bool:
    return any(not same(user.get(key, []), reference.get(key, [])) for key in {*user, *reference})
