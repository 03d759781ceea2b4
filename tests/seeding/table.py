"""The table of seeded faults: each rule's fault in each loop, found and confirmed, or why it cannot be there.

``python -m tests.seeding.table [CODE ...]`` prints it; it takes some minutes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ampcheck.check import Options, check_paths
from ampcheck.finding import Finding, Outcome
from ampcheck.replay import replay
from tests.seeding.known import MISSED
from tests.seeding.script import Impossible
from tests.seeding.seeds import LOOPS, SEEDS, seeded

__all__ = ["Cell", "Key", "judge"]

Key = tuple[str, str]
"""A rule's code and a loop's name."""

CERTAIN = Options(possible=False)


@dataclass(frozen=True)
class Cell:
    """What became of one fault in one loop: the outcome of its finding's replay, or why there is none.

    `outcome` is that of the replay, or "missed", or "impossible".  `others`: codes found besides.
    """

    outcome: str
    text: str = ""
    others: tuple[str, ...] = ()


def judge(keys: Iterable[Key]) -> dict[Key, Cell]:
    """Seed, check and replay, all in one go: importing torch is what takes the time."""
    loops = {path.stem: path for path in LOOPS}
    cells: dict[Key, Cell] = {}
    with tempfile.TemporaryDirectory() as folder:
        written: dict[str, Key] = {}
        for code, loop in keys:
            try:
                source = seeded(loops[loop], SEEDS[code])
            except Impossible as reason:
                cells[code, loop] = Cell("impossible", str(reason))
                continue
            path = Path(folder) / f"{code}_{loop}.py"
            path.write_text(source, encoding="utf-8")
            written[str(path)] = (code, loop)
        findings: dict[Key, list[Finding]] = {key: [] for key in written.values()}
        for finding in check_paths(list(written), options=CERTAIN).findings:
            findings[written[finding.site.path]].append(finding)
        own = [f for (code, _), found in findings.items() for f in found if f.code == code]
        settled: dict[Key, list[Finding]] = {}
        for finding in replay(own, device="cpu"):
            settled.setdefault(written[finding.site.path], []).append(finding)
        for key, found in findings.items():
            cells[key] = _cell(key[0], found, settled.get(key, []))
    return cells


def _cell(code: str, found: list[Finding], settled: list[Finding]) -> Cell:
    others = tuple(sorted({f.code for f in found} - {code}))
    replays = [f.replay for f in settled if f.replay]
    if not replays:
        return Cell("missed", "", others)
    best = min(replays, key=lambda r: get_args(Outcome).index(r.outcome))
    return Cell(best.outcome, best.text, others)


def _lines(cells: Mapping[Key, Cell]) -> Iterable[str]:
    for code in sorted({code for code, _ in cells}):
        row = {loop: cell for (c, loop), cell in cells.items() if c == code}
        counts = Counter(cell.outcome for cell in row.values())
        yield f"{code}: {', '.join(f'{n} {outcome}' for outcome, n in counts.most_common())}, of {len(row)}"
        for loop, cell in row.items():
            besides = f" (also {', '.join(cell.others)})" if cell.others else ""
            yield f"    {loop:<15} {cell.outcome}{besides}: {cell.text or MISSED.get((code, loop), '')}"


def main(codes: list[str]) -> None:
    """Print the table."""
    keys = [(code, loop.stem) for code in codes or sorted(SEEDS) for loop in LOOPS]
    print("\n".join(_lines(judge(keys))))


if __name__ == "__main__":
    main(sys.argv[1:])
