"""How long a replay takes: import torch, one finding, thirty findings of a project, each in a subprocess of its own.

python -m tests.bench.thirty_findings [REPEATS]

The findings are faults seeded into loops of different styles (`tests.seeding`), none of them equal to another.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from ampcheck.check import check_paths
from ampcheck.finding import Finding
from ampcheck.replay import replay
from tests.seeding.script import Impossible
from tests.seeding.seeds import LOOPS, SEEDS, seeded

__all__ = ["main"]

COUNT = 30


def main(repeats: int) -> None:
    """Print medians: by the clock, and of CPU, which says more on a machine that is busy."""
    findings = project()
    cases: dict[str, tuple[int, Callable[[], object]]] = {
        "import torch": (0, import_torch),
        "one finding": (1, lambda: replay(findings[:1], "cpu")),
        f"{len(findings)} findings": (len(findings), lambda: replay(findings, "cpu")),
    }
    importing = (0.0, 0.0)
    for name, (count, function) in cases.items():
        times = [timed(function) for _ in range(repeats)]
        wall, cpu = median(w for w, _ in times), median(c for _, c in times)
        importing = importing if count else (wall, cpu)
        line = f"{name}: {wall:.2f} s, {cpu:.2f} s of CPU"
        if count:
            each = [(t - i) / count for t, i in zip((wall, cpu), importing, strict=True)]
            line += f"; beyond the import {each[0]:.3f} s, {each[1]:.3f} s of CPU a finding"
        print(line)
    one = sorted(single(findings))
    print(f"answer after answer in one process: median {median(one):.3f} s, longest {one[-1]:.2f} s")


def project() -> Sequence[Finding]:
    """Thirty findings, of as many rules as possible; with ranks and shards among them."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (code, seed) in enumerate(SEEDS.items()):
            try:
                source = seeded(LOOPS[number % len(LOOPS)], seed)
            except Impossible:
                continue
            (Path(folder) / f"{code}.py").write_text(source, encoding="utf-8")
        found = check_paths([folder]).findings
    distinct = {f.code: f for f in found if f.code == Path(f.site.path).stem}
    return list(distinct.values())[:: max(1, len(distinct) // COUNT)][:COUNT]


def import_torch() -> None:
    """What nothing can be quicker than."""
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def single(findings: Sequence[Finding]) -> list[float]:
    """The seconds between answers."""
    at = [time.perf_counter()]
    replay(findings, "cpu", on_result=lambda _: at.append(time.perf_counter()))
    return [later - earlier for earlier, later in pairwise(at)]


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU in all subprocesses."""
    start, used = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    function()
    now = getrusage(RUSAGE_CHILDREN)
    return time.perf_counter() - start, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
