"""What makes a fix safe: the replay finds the mended loop right.

The runs of the mended root, in the finding's configuration, are executed on tensors next to those of every correct loop, and must
agree in every observable and every scenario.  All fixes of a check are proven in one subprocess.  A renaming changes no run:
there the runs before and after must be the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ampcheck.events import EngineCall, Event, Site, Step
from ampcheck.finding import Finding, Fix
from ampcheck.fixes import Proposal
from ampcheck.fixes.trial import Accepted
from ampcheck.replay import ReplayUnavailable, compare
from ampcheck.replay.process import require_torch
from ampcheck.trace import Trace

__all__ = ["MOST_RUNS", "prove"]

MOST_RUNS = 8
"""Different runs of one mended loop that are executed; the first ones cover its options."""

_NOWHERE = Site("", 0, 0, 0, 0)
_RENAMING = "AMP604"


def prove(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals with those fixes *safe* that the replay confirms, and the others' reasons; needs torch.

    Where torch is missing, every fix stays unsafe and says so.
    """
    try:
        require_torch()
    except ReplayUnavailable as error:
        return [_settled(p, f"not proven: {error}") for p in proposals]
    runs: dict[int, list[Trace]] = {}
    reasons: dict[int, str] = {}
    for index, proposal in enumerate(proposals):
        fix, accepted = proposal.finding.fix, proposal.accepted
        if fix is None or accepted is None:
            continue
        if accepted.candidate.doubt:
            reasons[index] = accepted.candidate.doubt
        elif proposal.finding.code == _RENAMING:
            reasons[index] = (
                "" if _are_same(accepted) else "not proven: the runs of the file change with the name"
            )
        else:
            chosen = list(_runs(proposal.finding, accepted))
            reasons[index] = _unprovable(chosen)
            if not reasons[index]:
                runs[index] = chosen
    try:
        found = compare([trace for chosen in runs.values() for trace in chosen]) if runs else ()
    except ReplayUnavailable as error:
        return [_settled(p, f"not proven: {error}") for p in proposals]
    at = 0
    for index, chosen in runs.items():
        deviations = {name: text for each in found[at : at + len(chosen)] for name, text in each.items()}
        at += len(chosen)
        said = next(iter(deviations.items()), None)
        reasons[index] = (
            f"not proven: the replay of the mended loop still deviates: {said[1]}" if said else ""
        )
    return [_settled(p, reasons.get(i, "")) for i, p in enumerate(proposals)]


def _settled(proposal: Proposal, why: str) -> Proposal:
    fix = proposal.finding.fix
    if fix is None or proposal.accepted is None:
        return proposal
    why = proposal.accepted.candidate.doubt or why
    settled: Fix = replace(fix, applicability="unsafe" if why else "safe", why=why)
    return replace(proposal, finding=replace(proposal.finding, fix=settled))


def _runs(finding: Finding, accepted: Accepted) -> Iterator[Trace]:
    """The different runs of the mended root that the finding's configuration admits."""
    assert finding.witness is not None
    wanted = {g.text: g.holds for g in finding.witness.trace.choices if not g.varying}
    seen: set[tuple[Event, ...]] = set()
    for trace in accepted.after:
        if any(wanted.get(g.text, g.holds) != g.holds for g in trace.choices if not g.varying):
            continue
        if any(g.varying and not g.finite and g.skip is None for g in trace.choices):
            continue  # a test of the user's own that no scenario decides
        if any(g.varying for g in trace.choices) and not any(trace.of(Step)):
            continue  # every batch is dropped: no scenario is like that
        key = tuple(record.event for record in trace.records)
        if key not in seen and len(seen) < MOST_RUNS:
            seen.add(key)
            yield trace


def _unprovable(runs: Sequence[Trace]) -> str:
    if not runs:
        return "not proven: no run of the mended loop can be replayed"
    if any(any(trace.of(EngineCall)) for trace in runs):
        return "not proven: a library's engine takes part, which the replay does not run"
    if any(not trace.complete for trace in runs):
        return "not proven: the rest of the loop is in a caller that is not to be seen"
    return ""


def _are_same(accepted: Accepted) -> bool:
    return [_events(t) for t in accepted.before] == [_events(t) for t in accepted.after]


def _events(trace: Trace) -> tuple[Event, ...]:
    """The events of a run wherever they stand."""
    return tuple(replace(record.event, site=_NOWHERE) for record in trace.records)
