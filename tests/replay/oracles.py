"""Stand-in rules: a name and an oracle, so that the replay is tested without any rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ampcheck.finding import Finding, Replay
from ampcheck.replay import replay
from ampcheck.rule import Observable, Rule
from ampcheck.trace import Trace
from tests.tracing import finding

__all__ = ["Case", "replayed", "rule"]

Case = tuple[Trace, tuple[Observable, ...]]


def rule(code: str, oracle: tuple[Observable, ...], unobservable: str = "") -> Rule:
    """A rule that finds nothing and has an oracle."""
    members = {
        "code": code,
        "name": code,
        "severity": "error",
        "oracle": oracle,
        "unobservable": unobservable,
        "check": lambda self, trace: iter(()),
    }
    made: Rule = type("StandIn", (Rule,), {**members, "__doc__": "A stand-in."})()
    return made


def replayed(cases: Mapping[str, Case], device: str = "cpu", remember: bool = True) -> dict[str, Replay]:
    """The replay of each case by name, all in one subprocess."""
    rules = [rule(name, oracle) for name, (_, oracle) in cases.items()]
    findings: Sequence[Finding] = [finding(trace, 0, name) for name, (trace, _) in cases.items()]
    done = replay(findings, device, rules=rules, remember=remember)
    return {f.code: f.replay for f in done if f.replay}
