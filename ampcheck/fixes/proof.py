"""What makes a fix safe: the replay finds the mended loop right.

The runs of the mended root, in the finding's configuration, are executed on tensors next to those of every correct
loop, and must agree in every observable and every scenario.  Other faults of the loop are left out where they can be
(`ampcheck.replay.isolating`), but in nothing that the fix has changed; where they cannot, the loop may deviate as
it did before, but in nothing that this fault's oracle looks at.  All fixes are proven in one subprocess.

A renaming changes no run: there the runs before and after must be the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck import registry
from ampcheck.events import EngineCall, Event, Site, Step
from ampcheck.finding import Finding
from ampcheck.fixes import Proposal
from ampcheck.fixes.trial import Accepted
from ampcheck.replay import ReplayUnavailable, compare
from ampcheck.replay.isolating import Isolation
from ampcheck.trace import Trace

__all__ = ["MOST_RUNS", "prove"]

MOST_RUNS = 8
"""Different runs of one mended loop that are executed."""

NO_TORCH = "not proven: no torch to replay on"
_NOWHERE = Site("", 0, 0, 0, 0)
_RENAMING = "AMP604"


@dataclass(frozen=True, slots=True)
class _Question:
    """The runs of one loop that are to be executed, before and after; `beside` are the codes of faults left there."""

    proposal: Proposal
    before: tuple[Trace, ...]
    after: tuple[Trace, ...]
    beside: tuple[str, ...] = ()


def prove(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals with those fixes *safe* that the replay confirms, and the others' reasons; needs torch.

    Where torch is missing, every fix stays unsafe and says so in a few words; the proposal's `reason` tells the rest.
    """
    settled = {index: _without_replay(p) for index, p in enumerate(proposals)}
    isolation = Isolation(registry.load())
    questions = {i: _question(p, isolation) for i, p in enumerate(proposals) if settled[i] is None}
    try:
        answers = _executed([trace for q in questions.values() for trace in (*q.before, *q.after)])
    except ReplayUnavailable as error:
        return [
            _settled(p, known) if (known := settled[i]) else _without_torch(p, str(error))
            for i, p in enumerate(proposals)
        ]
    for index, question in questions.items():
        before, after = (_deviations(runs, answers) for runs in (question.before, question.after))
        settled[index] = _reason(question, before, after)
    return [_settled(p, settled[i] or "") for i, p in enumerate(proposals)]


def _without_torch(proposal: Proposal, advice: str) -> Proposal:
    if proposal.finding.fix is None:
        return proposal
    return replace(_settled(proposal, NO_TORCH), reason=f"not proven: {advice}")


def _executed(traces: Sequence[Trace]) -> dict[int, dict[str, str]]:
    """What each trace does otherwise than every correct loop, by the trace's identity.

    It is asked even for none: whether torch is there at all decides about renamings as well.
    """
    distinct = {id(trace): trace for trace in traces}
    return dict(zip(distinct, compare(list(distinct.values())), strict=True))


def _without_replay(proposal: Proposal) -> str | None:
    """Why a fix is unsafe whatever the replay finds, "" where it needs none; None where the replay decides."""
    accepted = proposal.accepted
    if accepted is None:
        return ""
    if accepted.candidate.doubt:
        return accepted.candidate.doubt
    if proposal.finding.code == _RENAMING:
        return "" if _are_same(accepted) else "not proven: the runs of the file change with the name"
    return _unprovable(tuple(_runs(proposal.finding, accepted.after))) or None


def _question(proposal: Proposal, isolation: Isolation) -> _Question:
    assert proposal.accepted is not None
    before, after = (
        tuple(_runs(proposal.finding, runs)) for runs in (proposal.accepted.before, proposal.accepted.after)
    )
    if not proposal.accepted.others:
        return _Question(proposal, (), after)
    assert proposal.finding.witness is not None
    witness = proposal.finding.witness
    spared = type(witness.trace.records[witness.record].event)  # what the fix moves or changes
    isolated = [isolation.without_faults(trace, spared) for trace in after]
    beside = dict.fromkeys(code for one in isolated for code, _ in one.beside)
    return _Question(proposal, before, tuple(one.trace for one in isolated), tuple(beside))


def _deviations(runs: Sequence[Trace], answers: Mapping[int, dict[str, str]]) -> dict[str, str]:
    return {name: text for run in runs for name, text in answers[id(run)].items()}


def _reason(question: _Question, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why a fix is not safe; "" where it is."""
    if not after:
        return ""
    oracle = next((r.oracle for r in registry.load() if r.code == question.proposal.finding.code), ())
    # Where torch raises, what would come after it has not been seen.
    telling = {*oracle, "exception", "replay"}
    new = [text for name, text in after.items() if name not in before or name in telling]
    if not new:
        return ""
    if question.beside:
        return f"not proven as long as the loop has {' and '.join(question.beside)}, too: {new[0]}"
    return f"not proven: the replay of the mended loop still deviates: {new[0]}"


def _settled(proposal: Proposal, why: str) -> Proposal:
    fix = proposal.finding.fix
    if fix is None:
        return proposal
    settled = replace(fix, applicability="unsafe" if why else "safe", why=why)
    return replace(proposal, finding=replace(proposal.finding, fix=settled))


def _runs(finding: Finding, runs: Sequence[Trace]) -> Iterator[Trace]:
    """The different runs of a loop that the finding's configuration admits, and that a scenario can be like."""
    assert finding.witness is not None
    wanted = {g.text: g.holds for g in finding.witness.trace.choices if not g.varying}
    seen: set[tuple[Event, ...]] = set()
    for trace in runs:
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
