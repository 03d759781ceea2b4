"""Confirmed, refuted or inconclusive: what a user's loop does against every acceptable reference.

**Confirmed**: in some scenario an observable of the rule's oracle deviates from every reference.  **Refuted**: in every
scenario some reference agrees in all of them.  Anything else is inconclusive, above all a replay that breaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ampcheck.replay.factors import Known, number
from ampcheck.replay.hiding import ADAPTIVE, difference, in_words
from ampcheck.replay.observe import Observed, deviations, norm
from ampcheck.replay.scenarios import CONTROLS, DISABLED, RANKS, SCENARIOS, SHARDS, SMALL, Scenario
from ampcheck.replay.script import Cast, Op
from ampcheck.replay.wording import Wording, describe, differing, settings

__all__ = ["Execute", "Job", "Scripts", "Verdict", "compare", "is_whole", "judge"]

Execute = Callable[[Cast, Sequence[Op], Scenario], Observed]

UNITS = next(s for s in SCENARIOS if s.name == "units")

HIDDEN = frozenset({"gradient", "parameters"})
OF_RANKS = frozenset({"syncs", "divergence"})
OF_SHARDS = ("scale", "steps", "gradient", "parameters")


@dataclass(frozen=True, slots=True)
class Scripts:
    """The user's operations, and those of each acceptable reference by name."""

    user: list[Op]
    references: list[tuple[str, list[Op]]]


@dataclass(frozen=True, slots=True)
class Job:
    """All that is needed to judge one witness.  `excerpt` is its first windows, `whole` the whole run.

    `bfloat16`: no loss scale is needed, so that a correct one would never move.  `shards`: the oracle is
    "shards", which stands for several observables on two processes that each hold a shard.
    """

    members: Cast
    excerpt: Scripts
    whole: Scripts
    oracle: tuple[str, ...]
    bfloat16: bool = False
    shards: bool = False

    @classmethod
    def read(cls, data: dict[str, Any]) -> Job:
        """A job from plain data."""
        shards = "shards" in data["oracle"] and len(data["oracle"]) == 1
        return cls(
            data["members"],
            Scripts(**data["excerpt"]),
            Scripts(**data["whole"]),
            OF_SHARDS if shards else tuple(data["oracle"]),
            data["bfloat16"],
            shards,
        )


@dataclass(slots=True)
class Verdict:
    """An outcome with its line for people."""

    outcome: str
    text: str
    figures: dict[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One scenario: what the user's loop did, and how each reference that ran differs from it."""

    scenario: Scenario
    user: Observed
    differences: list[tuple[Observed, frozenset[str]]]

    def deviating(self, oracle: Iterable[str]) -> list[str]:
        """The oracle's observables that deviate from every reference."""
        return [o for o in oracle if all(o in found for _, found in self.differences)]

    def agrees(self, oracle: Iterable[str]) -> bool:
        """Whether some reference agrees in all of them."""
        return any(found.isdisjoint(oracle) for _, found in self.differences)

    def nearest(self) -> Observed:
        """The reference that differs least."""
        return min(self.differences, key=lambda d: len(d[1]))[0]


def is_whole(verdict: Verdict) -> bool:
    """Whether the figures are those of a whole run, with its epochs' ends, and not of its first windows."""
    return any(s.whole for s in (*SCENARIOS, *SHARDS, RANKS) if s.name == verdict.figures.get("scenario"))


def judge(job: Job, execute: Execute) -> Verdict:
    """Decide one finding."""
    parted, tried = False, []
    for trial in _trials(job, execute):
        if not trial.differences:
            return Verdict("inconclusive", f"no reference runs in the scenario {trial.scenario.name!r}")
        found = trial.deviating(job.oracle)
        if found:
            return _confirmed(job, trial, found, execute)
        parted = parted or not trial.agrees(job.oracle)
        tried.append(trial)
    raised = next((t.user.exception for t in tried if t.user.exception), "")
    if raised and "exception" not in job.oracle:
        return Verdict("inconclusive", f"torch raises before the fault can show: {raised}")
    if job.members["internals"] and "exception" in job.oracle:
        return Verdict("inconclusive", "this version of torch has the attribute even with enabled=False")
    if parted:
        return Verdict("inconclusive", "agrees with different references in different respects")
    scales = ", ".join(f"{s:g}" for s in sorted({t.scenario.scale for t in tried}))
    text = f"agrees with a correct loop in {len(tried)} scenarios (S = {scales})" + settings(job.members)
    return Verdict("refuted", text, {"scenarios": len(tried)})


def compare(job: Job, execute: Execute) -> dict[str, str]:
    """Every observable that deviates from a correct loop in some scenario, in words."""
    found: dict[str, str] = {}
    for trial in _trials(job, execute):
        if not trial.differences:
            return {"reference": f"no reference runs in the scenario {trial.scenario.name!r}"}
        if trial.agrees(job.oracle):
            continue
        nearest = trial.nearest()
        for observable in trial.deviating(job.oracle) or sorted(deviations(trial.user, nearest)):
            wording = describe(observable, trial.user, nearest, _known(job, trial.scenario), trial.scenario)
            found.setdefault(observable, wording.text)
    return found


def _trials(job: Job, execute: Execute) -> Iterator[_Trial]:
    for scenario in _scenarios(job):
        trial = _trial(job, execute, scenario)
        if trial.user.stopped and "exception" not in job.oracle and not trial.deviating(job.oracle):
            trial = _trial(
                job, execute, replace(scenario, stops=False)
            )  # what would come after the exception
        yield trial


def _scenarios(job: Job) -> Iterator[Scenario]:
    if job.shards:
        yield from (s for s in SHARDS if job.members["scalers"] or not s.scaled)
        return
    if job.members["half"]:
        yield SMALL
        return
    if job.members["internals"] and "exception" in job.oracle:
        yield DISABLED
        return
    several = bool(job.members["wrapped"] or job.members["reduced"])
    ranked = bool(OF_RANKS.intersection(job.oracle)) and several
    if ranked:
        yield RANKS
    if ranked and OF_RANKS.issuperset(job.oracle):
        return
    for scenario in SCENARIOS:
        tested = bool(job.members["tests"]) and scenario.infinite == 0
        pointless = scenario.scaled and not (job.members["scalers"] or tested)
        missing = scenario.infinite is not None and scenario.infinite >= len(job.members["optimizers"])
        if not (pointless or missing):
            yield scenario


def _trial(job: Job, execute: Execute, scenario: Scenario) -> _Trial:
    scripts = job.whole if scenario.whole else job.excerpt
    user = execute(job.members, scripts.user, scenario)
    differences: list[tuple[Observed, frozenset[str]]] = []
    for _, ops in scripts.references:
        reference = execute(job.members, ops, scenario)
        if reference.exception:
            continue
        if job.bfloat16:
            reference.scale = {name: [1.0] * len(values) for name, values in reference.scale.items()}
        difference = deviations(user, reference)
        differences.append((reference, difference))
        if difference.isdisjoint(job.oracle):
            break
    return _Trial(scenario, user, differences)


def _known(job: Job, scenario: Scenario) -> Known:
    members = job.members
    return Known(
        scenario.scale,
        members["window"],
        len(members["scalers"]),
        members["clips"],
        members["ranks"],
        moving=scenario.whole and scenario.scaled,
        items=members["items"],
        thresholds=tuple(members["thresholds"]),
    )


def _confirmed(job: Job, trial: _Trial, found: list[str], execute: Execute) -> Verdict:
    """The figures of the first deviation, and where a fault of scale hides."""
    scenario, observable = trial.scenario, found[0]
    known = _known(job, scenario)
    wording = describe(observable, trial.user, trial.nearest(), known, scenario)
    if wording.factor and scenario.name == "documents":
        other = _trial(job, execute, UNITS)
        again = describe(observable, other.user, other.nearest(), known, UNITS)
        if again.factor != wording.factor:  # an accident of round numbers
            wording = describe(
                observable, trial.user, trial.nearest(), replace(known, nameless=True), scenario
            )
    figures = {**wording.figures, "scenario": scenario.name, "S": scenario.scale, "K": job.members["window"]}
    if wording.factor:
        figures["factor"] = wording.factor
    text = wording.text
    if trial.user.exception and observable != "exception":
        text += f" (torch raises as well: {trial.user.exception})"
    of_scale = "S" in wording.factor and "S₁" not in wording.factor and "S₂" not in wording.factor
    if scenario.name == "documents" and of_scale and observable in ("gradient", "clip-norm"):
        text += _controls(job, trial, observable, wording, execute, figures)
    if observable in HIDDEN:
        text += _hidden(job, trial, execute, figures)
    text += settings(job.members)
    return Verdict("confirmed", text, {name: _written(value) for name, value in figures.items()})


def _hidden(job: Job, trial: _Trial, execute: Execute, figures: dict[str, float | int | str]) -> str:
    """What the parameters of the loop's own optimizer show of a wrong gradient."""
    optimizer, _ = differing(trial.user, trial.nearest())
    kind = job.members["classes"].get(optimizer, "")
    if kind not in ADAPTIVE:
        return ""
    own = _trial(job, execute, replace(trial.scenario, own=True))
    ratio = difference(own.user, own.nearest(), optimizer, trial.scenario) if own.differences else None
    if ratio is None:
        return ""
    figures.update({"optimizer": kind, f"{kind} parameters": ratio})
    return f"; {in_words(kind, ratio)}"


def _written(value: float | int | str) -> float | int | str:
    """A figure as JSON can have it: infinities and NaN as words."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


def _controls(
    job: Job,
    trial: _Trial,
    observable: str,
    wording: Wording,
    execute: Execute,
    figures: dict[str, float | int | str],
) -> str:
    """The same loop at S = 1 and S = 64, and with no gradient at all: where wrong and right agree."""
    agreeing: list[str] = []
    norms = {trial.scenario.scale: float(wording.figures[observable])}
    optimizer, at = differing(trial.user, trial.nearest())
    for control in CONTROLS:
        other = _trial(job, execute, control)
        if not other.differences:
            return ""
        if other.agrees((observable,)):
            agreeing.append(control.name)
            used = other.user.gradient.get(optimizer, []) if observable == "gradient" else []
            if control.data != "zero" and at < len(used):
                norms[control.scale] = norm(used[at])
            continue
        again = describe(observable, other.user, other.nearest(), _known(job, control), control)
        if again.factor != wording.factor:  # it does not follow the scale after all
            return ""
        norms[control.scale] = float(again.figures[observable])
    scales = sorted(norms)
    figures.update({f"{observable} at S = {scale:g}": norms[scale] for scale in scales})
    text = ""
    if len(scales) > 1:
        text += f"; norm at S = {', '.join(f'{s:g}' for s in scales)}: {', '.join(number(norms[s]) for s in scales)}"
    if agreeing:
        text += f"; wrong and right agree at {' and at '.join(agreeing)}"
    return text
