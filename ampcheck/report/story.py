"""The story of a finding: the places of its witness in order, each with what the gradients carry there."""

from __future__ import annotations

from typing import NamedTuple

from ampcheck.events import Site
from ampcheck.finding import Finding
from ampcheck.report.carries import carries

__all__ = ["Step", "story"]


class Step(NamedTuple):
    """One place, and what happens to the gradients there (possibly nothing worth saying)."""

    site: Site
    text: str


def story(finding: Finding) -> tuple[Step, ...]:
    """The witness's records in the order of the run, repetitions left out; the finding's own place without one."""
    witness = finding.witness
    if witness is None:
        return (Step(finding.site, ""),)
    records = witness.trace.records
    told = sorted({index for index in (*witness.steps, witness.record) if 0 <= index < len(records)})
    steps = [Step(records[i].event.site, carries(witness.trace, records[i])) for i in told]
    if all(step.site != finding.site for step in steps):
        steps.append(Step(finding.site, ""))
    return tuple(dict.fromkeys(steps))
