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
from pathlib import Path
from statistics import median

from ampcheck.check import check_paths
from ampcheck.finding import Finding
from ampcheck.replay import replay
from tests.seeding.script import Impossible
from tests.seeding.seeds import LOOPS, SEEDS, seeded

__all__ = ["main"]

COUNT = 30


def main(repeats: int) -> None:
    """Print medians."""
    findings = project()
    importing = median(timed(import_torch) for _ in range(repeats))
    one = median(timed(lambda: replay(findings[:1], "cpu")) for _ in range(repeats))
    all_ = median(timed(lambda: replay(findings, "cpu")) for _ in range(repeats))
    each = (all_ - importing) / len(findings)
    print(f"import torch {importing:.2f} s, one finding {one:.2f} s, {len(findings)} findings {all_:.2f} s")
    print(f"beyond the import {each:.3f} s a finding (median of {repeats} runs)")


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


def timed(function: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
