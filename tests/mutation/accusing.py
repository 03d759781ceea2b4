"""False findings: every oracle is asked about a run, whether or not its rule has anything against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampcheck import registry
from ampcheck.events import Step
from ampcheck.finding import Finding, Witness
from ampcheck.trace import Trace

__all__ = ["accusations"]


def accusations(traces: Iterable[Trace]) -> Iterator[Finding]:
    """One false finding for each distinct oracle, at the last step of each trace that steps at all."""
    accusers = {rule.oracle: rule for rule in registry.built_in() if rule.oracle}
    for trace in traces:
        steps = [record for record, _ in trace.of(Step)]
        if not steps:
            continue
        for rule in accusers.values():
            witness = Witness(trace, steps[-1].index)
            site = steps[-1].event.site
            yield Finding(rule.code, rule.name, rule.severity, "certain", site, "accused", witness=witness)
