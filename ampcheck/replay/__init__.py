"""Findings put to the test: their witnesses are executed on real tensors, in one subprocess for all of them.

The user's code is never imported or run, only its trace of events; the process that calls `replay` never imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from ampcheck.events import Edit, Internal
from ampcheck.finding import Finding, Replay, Witness
from ampcheck.replay.isolating import Isolation
from ampcheck.replay.jobs import job
from ampcheck.replay.observe import Observed
from ampcheck.replay.process import Ended, ReplayUnavailable, ask, require_torch
from ampcheck.replay.references import excerpt
from ampcheck.replay.scenarios import RANKS, SCENARIOS, Scenario
from ampcheck.rule import OBSERVABLES, Rule
from ampcheck.trace import Trace

__all__ = [
    "RANKS",
    "SCENARIOS",
    "Observed",
    "ReplayUnavailable",
    "Scenario",
    "compare",
    "measure",
    "replay",
]

TIMEOUT = 900.0
"""Seconds for all findings together; a finding takes about a tenth of one, the import of torch ten."""


def replay(
    findings: Sequence[Finding],
    device: str = "auto",
    timeout: float = TIMEOUT,
    *,
    rules: Iterable[Rule] | None = None,
    on_result: Callable[[Finding], None] | None = None,
    remember: bool = True,
) -> tuple[Finding, ...]:
    """The findings in the same order, each with a `Replay`.

    `device` is "auto" (CUDA where there is one), "cpu" or "cuda"; loops on several ranks run on the CPU all the same.
    `rules` supply the oracles, all installed ones unless given; `on_result` is called as each finding is done.
    Equal scripts are executed once, unless it does not `remember` them.
    Raises `ReplayUnavailable` where torch is missing or older than 2.3, or the device does not exist.
    """
    require_torch()
    oracles = {r.code: r for r in (_installed() if rules is None else rules)}
    isolation = Isolation(oracles.values())
    results = list(findings)

    def settle(index: int, result: Replay) -> None:
        results[index] = replace(findings[index], replay=result)
        if on_result:
            on_result(results[index])

    jobs = []
    for index, finding in enumerate(findings):
        rule = oracles.get(finding.code)
        library = _by_library(finding, rule)
        if library is not None:
            settle(index, library)
            continue
        reason = _unobservable(finding, rule)
        if reason or rule is None or finding.witness is None:
            settle(index, Replay("inconclusive", "none", text=reason))
            continue
        witness = finding.witness
        try:
            question = _question(witness, rule, isolation)
        except Exception as error:  # one trace of an unforeseen shape must not cost the others their replay
            reason = f"the replay itself failed: {type(error).__name__}: {error}"
            settle(index, Replay("inconclusive", "none", text=reason))
            continue
        jobs.append({"id": index, "kind": "judge", **question})
    for index, answer in _answers(jobs, device, timeout, lambda i, a: settle(i, _result(a)), remember):
        settle(index, Replay("inconclusive", "none", text=answer))
    return tuple(results)


def compare(
    traces: Sequence[Trace],
    device: str = "auto",
    timeout: float = TIMEOUT,
    oracle: Iterable[str] = OBSERVABLES,
) -> tuple[dict[str, str], ...]:
    """For each trace, the observables in which it deviates from every correct loop, in words; empty for a right one.

    The key "replay" stands for a replay that failed.
    """
    require_torch()
    found: list[dict[str, str]] = [{} for _ in traces]
    jobs = [{"id": i, "kind": "compare", "job": job(trace, oracle)} for i, trace in enumerate(traces)]

    def take(index: int, answer: dict[str, Any]) -> None:
        found[index] = answer["deviations"] if "deviations" in answer else {"replay": answer["broken"]}

    for index, reason in _answers(jobs, device, timeout, take):
        found[index] = {"replay": reason}
    return tuple(found)


def measure(
    experiments: Sequence[tuple[Trace, Scenario]],
    device: str = "auto",
    timeout: float = TIMEOUT,
    *,
    reference: bool = False,
) -> tuple[Observed, ...]:
    """What each trace does in a scenario, or what its likeliest reference does.

    Raises `RuntimeError` where a replay fails.
    """
    require_torch()
    found = [Observed() for _ in experiments]
    jobs = [
        {
            "id": i,
            "kind": "measure",
            "scenario": asdict(scenario),
            "reference": reference,
            "job": job(trace, ()),
        }
        for i, (trace, scenario) in enumerate(experiments)
    ]

    def take(index: int, answer: dict[str, Any]) -> None:
        if "broken" in answer:
            raise RuntimeError(answer["broken"])
        found[index] = Observed(**answer["observed"])

    for _, reason in _answers(jobs, device, timeout, take):
        raise RuntimeError(reason)
    return tuple(found)


def _ranks(job: dict[str, Any]) -> int:
    """0 for a job on one rank, 1 for one on several, 2 for one on shards."""
    members = job["job"]["members"]
    return 2 if job["job"]["oracle"] == ["shards"] else int(bool(members["wrapped"] or members["reduced"]))


def _question(witness: Witness, rule: Rule, isolation: Isolation) -> dict[str, Any]:
    """The job of a witness, and another without the other faults of its loop where they can be left out.

    `beside` are the codes of those that cannot, `early` of those that an excerpt of the run has as well.
    """
    told = (witness.record, *witness.steps)
    isolated = isolation.of(witness.trace, rule, witness.record)
    places = [isolated.places[n] for n in told if n in isolated.places]
    stop = excerpt(isolated.trace, *places)
    question: dict[str, Any] = {
        "job": job(witness.trace, rule.oracle, told, rule.contests),
        "beside": [code for code, _ in isolated.beside],
        "early": [code for code, record in isolated.beside if stop is None or record < stop],
    }
    if isolated.left_out:
        question["alone"] = job(isolated.trace, rule.oracle, places, rule.contests)
        question["left_out"] = isolated.left_out
    return question


def _installed() -> Sequence[Rule]:
    from ampcheck.registry import load

    return load()


def _by_library(finding: Finding, rule: Rule | None) -> Replay | None:
    """What tests of a library's model measured, for a loop that is such an engine's."""
    if rule is None or finding.witness is None:
        return None
    engines = {role.engine for role in finding.witness.trace.roles.values() if role.engine}
    for known in rule.measured:
        if any(engine.startswith(known.engine) for engine in engines):
            return Replay("confirmed (library model)", "none", text=f"{known.says} ({known.where})")
    return None


def _unobservable(finding: Finding, rule: Rule | None) -> str:
    if rule is None:
        return f"no rule has the code {finding.code}"
    if not rule.oracle:
        return rule.unobservable or "the fault has no numeric trace"
    if finding.severity == "note" != rule.severity:
        return "advice: the loop is acceptable as it is, so nothing deviates"
    if finding.witness is None:
        return "there is no run to replay"
    event = finding.witness.trace.records[finding.witness.record].event
    if isinstance(event, Internal) and event.written:
        return "what a loop writes into a private attribute is its own affair until torch changes"
    return _beyond_torch(finding.witness.trace, rule)


def _beyond_torch(trace: Trace, rule: Rule) -> str:
    """Why a run cannot be replayed with torch's own scaler; "" where it can.

    apex keeps gradients that are unscaled already apart from new ones, and skips steps by itself: of its loops only the
    gradient of a window of one micro-batch is what torch would make of the same events.
    """
    if not any(edit.latest for _, edit in trace.of(Edit)):
        return ""
    if trace.window is None and rule.oracle[0] in ("gradient", "clip-norm"):
        return ""
    return "apex's own scaler accumulates and skips by itself: the replay has no such scaler"


def _result(answer: dict[str, Any]) -> Replay:
    if "broken" in answer:
        return Replay("inconclusive", answer["device"], text=answer["broken"])
    return Replay(answer["outcome"], answer["device"], answer["figures"], answer["text"])


def _answers(
    jobs: list[dict[str, Any]],
    device: str,
    timeout: float,
    take: Callable[[int, dict[str, Any]], None],
    remember: bool = True,
) -> Iterable[tuple[int, str]]:
    """Hand on each answer as it comes; returned are the jobs that got none, with the reason.

    Jobs with several ranks come last: they are the only ones that could wait for each other.  Those with shards come
    last of all, since their processes are still starting.
    """
    if not jobs:
        return []
    ordered = sorted(jobs, key=_ranks)
    open_jobs = {j["id"] for j in jobs}

    def on_answer(answer: dict[str, Any]) -> None:
        open_jobs.discard(answer["id"])
        take(answer["id"], answer)

    try:
        ask({"device": device, "jobs": ordered, "remember": remember}, timeout, on_answer)
    except Ended as end:
        return [(index, str(end)) for index in sorted(open_jobs)]
    return []
