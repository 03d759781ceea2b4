"""From violations in single runs to findings: is it *certain*, and under which condition?

A violation is certain when some invariant configuration that the code itself admits has it in every run that
reaches the event, whatever the varying choices.  It is possible when it is anything weaker, or when the rule
itself leant on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ampcheck.events import Site, Step
from ampcheck.finding import Finding, Verdict, Witness
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Guard, Trace

__all__ = ["findings_of"]


def findings_of(traces: Sequence[Trace], rules: Iterable[Rule]) -> list[Finding]:
    """What the rules find in all runs of a program."""
    found: list[Finding] = []
    judged = [_Judged(trace) for trace in traces]
    distinct: dict[tuple[object, ...], tuple[Trace, dict[str, tuple[Violation, ...]]]] = {}
    rules = tuple(rules)
    for one in judged:
        known = distinct.get(one.key)
        if known is None:
            violations = {rule.code: tuple(rule.check(one.trace)) for rule in rules}
            distinct[one.key] = one.trace, violations
        else:
            violations = known[1]
        one.violations = violations
    for rule in rules:
        found += _judge(rule, judged)
    return found


@dataclass(slots=True)
class _Judged:
    """A run with what every rule said of it."""

    trace: Trace
    violations: dict[str, tuple[Violation, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for runs that no rule can tell apart."""
        trace = self.trace
        return (
            trace.root,
            trace.window,
            trace.complete,
            tuple((r.event, r.guards, r.iteration) for r in trace.records),
        )

    @property
    def choices(self) -> dict[str, bool]:
        """The invariant choices by the tests' texts, without those that nothing certain may rest on."""
        return {g.text: g.holds for g in self.trace.choices if not g.varying and not g.doubtful}

    @property
    def varying(self) -> frozenset[tuple[str, bool]]:
        """The varying test that comes out otherwise than usual, if any."""
        return frozenset((g.text, g.holds) for g in self.trace.choices if g.varying)

    def agrees(self, chosen: Mapping[str, bool]) -> bool:
        """Whether no invariant choice of this run contradicts these."""
        return all(chosen.get(text, holds) == holds for text, holds in self.choices.items())

    @property
    def trains(self) -> bool:
        """Whether any optimizer steps: a run that skips every batch says nothing about one that skips some."""
        return any(isinstance(r.event, Step) for r in self.trace.records)

    def reaches(self, sites: frozenset[Site]) -> bool:
        """Whether an event happens at one of these places in this run."""
        return any(r.event.site in sites for r in self.trace.records)


def _judge(rule: Rule, runs: Sequence[_Judged]) -> list[Finding]:
    """One finding for each place where a rule is broken."""
    places: dict[Site, list[tuple[_Judged, Violation]]] = {}
    for run in runs:
        for violation in run.violations.get(rule.code, ()):
            site = violation.site or run.trace.records[violation.record].event.site
            places.setdefault(site, []).append((run, violation))
    return [_finding(rule, site, broken, runs) for site, broken in places.items()]


def _finding(
    rule: Rule, site: Site, broken: list[tuple[_Judged, Violation]], runs: Sequence[_Judged]
) -> Finding:
    events = frozenset(run.trace.records[violation.record].event.site for run, violation in broken)
    certain = [pair for pair in broken if pair[1].certain and _always_breaks(rule, events, pair[0], runs)]
    run, violation = (certain or broken)[0]
    condition = _condition(certain or broken, runs)
    return _report(rule, site, run, violation, "certain" if certain else "possible", condition)


def _always_breaks(rule: Rule, sites: frozenset[Site], run: _Judged, runs: Sequence[_Judged]) -> bool:
    """Whether some configuration that a run belongs to breaks the rule in every run that reaches the places.

    A run that does not break it is left out by an option that the others leave open, provided that the other way of
    it was run too, with the same varying choice: what was not run proves nothing.
    """
    same = [r for r in runs if r.trace.root == run.trace.root and r.reaches(sites) and r.trains >= run.trains]
    chosen = run.choices
    while True:
        compatible = [r for r in same if r.agrees(chosen)]
        right = next((r for r in compatible if not r.violations.get(rule.code)), None)
        if right is None:
            return True
        for text, holds in right.choices.items():
            other_way = (
                r.choices.get(text) == (not holds) and r.varying == right.varying for r in compatible
            )
            if text not in chosen and any(other_way):
                chosen = {**chosen, text: not holds}
                break
        else:
            return False


def _report(
    rule: Rule, site: Site, run: _Judged, violation: Violation, verdict: Verdict, condition: str
) -> Finding:
    return Finding(
        rule.code,
        rule.name,
        violation.severity or rule.severity,
        verdict,
        site,
        violation.message,
        condition,
        rule.hint,
        Witness(run.trace, violation.record, violation.steps),
        of_loop=rule.of_loop,
    )


def _differs_only_in(guard: Guard, run: _Judged, other: _Judged) -> bool:
    """Whether another run made all choices that both made alike, but this one."""
    if other.choices.get(guard.text) != (not guard.holds) or other.varying != run.varying:
        return False
    return other.agrees({text: holds for text, holds in run.choices.items() if text != guard.text})


def _condition(broken: Sequence[tuple[_Judged, Violation]], runs: Sequence[_Judged]) -> str:
    """The invariant choices that the story's events depend on, as people read them.

    An option that the finding does not depend on, since it is there either way, is no condition of it.  One without
    which the fault is gone is a condition even where no event is guarded by it: it chose what an object is.
    """
    run, violation = broken[0]
    guards: dict[str, Guard] = {}
    invariant = {g.text for g in run.trace.choices}
    for index in sorted({violation.record, *violation.steps}):
        for guard in run.trace.records[index].guards:
            if not guard.varying and not guard.boundary and guard.text in invariant:
                guards.setdefault(guard.text, guard)
    site = run.trace.records[violation.record].event.site
    wrong = {id(other) for other, _ in broken}
    right = [
        r
        for r in runs
        if r.trace.root == run.trace.root and id(r) not in wrong and r.reaches(frozenset({site}))
    ]
    for guard in run.trace.choices:
        if not guard.varying and any(_differs_only_in(guard, run, other) for other in right):
            guards.setdefault(guard.text, guard)
    chosen = [{(g.text, g.holds) for g in other.trace.choices if not g.varying} for other, _ in broken]
    for guard in run.trace.choices:
        if guard.doubtful:
            guards.setdefault(guard.text, guard)
    needed = [g for g in guards.values() if not any((g.text, not g.holds) in choices for choices in chosen)]
    return " and ".join(
        g.text if g.holds else f"not ({g.text})" if " " in g.text else f"not {g.text}" for g in needed
    )
