"""Whether verdicts stay the same: all fixtures again and again, and every case with several ranks much more often.

    python -m tests.bench.stability [RUNS [RUNS_OF_RANKS]]          # 20 and 200 unless said otherwise

Each run over the fixtures is a subprocess of its own; the cases with ranks run in one, which forgets what it has seen.
It prints what it did, and the findings whose verdict or figures changed; exits 1 if there are any.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict

from ampcheck.check import check_paths
from ampcheck.finding import Finding
from ampcheck.replay import replay
from tests.expectations import FIXTURES
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import Case, replayed
from tests.replay.test_shards import RIGHT, SHARDS, WRONG

__all__ = ["main"]

Seen = dict[str, Counter[tuple[str, str]]]


def main(runs: int, runs_of_ranks: int) -> int:
    """Run, and say what changed."""
    changed = _report("everything", runs, everything(runs)) if runs else 0
    changed += _report("ranks and shards", runs_of_ranks, ranks(runs_of_ranks)) if runs_of_ranks else 0
    return 1 if changed else 0


def everything(runs: int) -> Seen:
    """All findings on the fixtures."""
    findings = check_paths([str(FIXTURES)]).findings
    seen: Seen = defaultdict(Counter)
    for number in range(runs):
        start = time.perf_counter()
        for finding in replay(findings, "cpu"):
            seen[_place(finding)][_result(finding)] += 1
        print(f"run {number + 1}: {len(findings)} findings, {time.perf_counter() - start:.0f} s", flush=True)
    return seen


def ranks(runs: int) -> Seen:
    """The hand-made loops under DistributedDataParallel and FSDP, in portions, so that one that hangs costs no more."""
    cases: dict[str, Case] = {n: (f.trace, f.oracle) for n, f in FAULTS.items() if n.startswith("D")}
    cases |= {name: (trace, SHARDS) for name, trace in {**WRONG, **RIGHT}.items()}
    seen: Seen = defaultdict(Counter)
    for first in range(0, runs, 20):
        portion = {
            f"{name}#{n}": case for n in range(first, min(first + 20, runs)) for name, case in cases.items()
        }
        start = time.perf_counter()
        for name, result in replayed(portion, remember=False).items():
            seen[name.rpartition("#")[0]][result.outcome, result.text] += 1
        print(f"{first + 20} runs of {len(cases)} cases, {time.perf_counter() - start:.0f} s", flush=True)
    return seen


def _place(finding: Finding) -> str:
    return f"{finding.site.path}:{finding.site.line}:{finding.site.column} {finding.code}"


def _result(finding: Finding) -> tuple[str, str]:
    return (finding.replay.outcome, finding.replay.text) if finding.replay else ("", "")


def _report(what: str, runs: int, seen: Seen) -> int:
    changed = {place: results for place, results in seen.items() if len(results) > 1}
    outcomes = Counter(outcome for results in seen.values() for outcome, _ in results)
    print(f"{what}: {runs} runs of {len(seen)} cases: {dict(outcomes)}; {len(changed)} changed")
    for place, results in changed.items():
        print(f"    {place}: {dict(results)}")
    return len(changed)


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in [*sys.argv[1:], "20", "200"][: max(2, len(sys.argv[1:]))][:2])))
