"""Every fix that is offered on real public files, applied to a copy and checked from disk.

    python tests/bench/fixes_on_repositories.py --mirrors DIR --manifest public.jsonl --work DIR [--show] [--only CODES]

The manifest names files by repository, commit and path; the repositories are bare git directories
``MIRRORS/<owner>+<name>/*/HEAD``.  A fix is applied from its edits alone.  Then the file must compile, the finding be
gone and no other have come; what does not hold is printed and counted as broken.  Nothing of the files is kept.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from ampcheck.check import Options, check_paths
from ampcheck.finding import Edit, Finding
from ampcheck.fixes import FIXABLE, Proposal, propose
from ampcheck.fixes.proof import prove
from ampcheck.fixes.trial import said

EVERYTHING = Options(possible=True)


def main() -> int:
    options = _options()
    table: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    broken = 0
    seen: set[tuple[Path, str]] = set()
    for case in map(json.loads, options.manifest.read_text().splitlines()):
        tree = _checkout(options.mirrors, options.work, case["repo"], case["commit"])
        if tree is None or (tree, case["path"]) in seen:
            continue
        seen.add((tree, case["path"]))
        os.chdir(tree)
        started = time.perf_counter()
        found = [f for f in check_paths([case["path"]]).findings if f.code in options.only]
        for proposal in prove(propose(found)):
            kind, why = _kind(proposal)
            wrong = _broken(case["path"], proposal.finding) if proposal.finding.fix else ""
            broken += bool(wrong)
            table[proposal.finding.code][kind] += 1
            table[proposal.finding.code]["broken"] += bool(wrong)
            reasons[f"{kind}: {why}"] += bool(why)
            if options.show or wrong:
                place = f"{case['repo']} {proposal.finding.site.path}:{proposal.finding.site.line}"
                print(
                    proposal.finding.code, place, kind, why or _title(proposal), wrong and f"BROKEN {wrong}"
                )
        if found:
            print(f"   {case['id']}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    _print(table, reasons)
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--mirrors", "--manifest", "--work"):
        parser.add_argument(name, type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--show", action="store_true", help="name every finding")
    parser.add_argument("--only", type=lambda text: frozenset(text.split(",")), default=FIXABLE)
    return parser.parse_args()


def _checkout(mirrors: Path, work: Path, repo: str, commit: str) -> Path | None:
    """The Python files and notebooks of a commit, laid out once."""
    git = next((head.parent for head in (mirrors / repo.replace("/", "+")).glob("*/HEAD")), None)
    tree = work / repo.replace("/", "+") / commit
    if git is None:
        return None
    if not tree.exists():
        tree.mkdir(parents=True)
        command = ["git", f"--git-dir={git}", "archive", commit, "--", "*.py"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as archive:
            subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, stderr=subprocess.DEVNULL)
    return tree


def _kind(proposal: Proposal) -> tuple[str, str]:
    fix = proposal.finding.fix
    return ("none", proposal.reason) if fix is None else (fix.applicability, fix.why)


def _title(proposal: Proposal) -> str:
    return proposal.finding.fix.title if proposal.finding.fix else ""


def _broken(path: str, finding: Finding) -> str:
    """What does not hold once the fix is on disk; the files are put back as they were."""
    assert finding.fix is not None
    checked = sorted({path, finding.site.path, *(edit.site.path for edit in finding.fix.edits)})
    before = Counter(said(f) for f in check_paths(checked, options=EVERYTHING).findings)
    kept = {Path(name): Path(name).read_bytes() for name in {edit.site.path for edit in finding.fix.edits}}
    try:
        for file, data in kept.items():
            text = _edited(data.decode(), [e for e in finding.fix.edits if Path(e.site.path) == file])
            ast.parse(text)
            file.write_bytes(text.encode())
        after = Counter(said(f) for f in check_paths(checked, options=EVERYTHING).findings)
    except SyntaxError as error:
        return f"not Python: {error}"
    finally:
        for file, data in kept.items():
            file.write_bytes(data)
    if after[said(finding)] >= before[said(finding)]:
        return "the finding is still there"
    new = after - before
    return f"brings {sorted(code for code, _ in new)}" if new else ""


def _edited(text: str, edits: list[Edit]) -> str:
    """A text with edits made, from the last to the first."""
    lines = text.removeprefix("\ufeff").split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    text = "\n".join(lines)
    for edit in sorted(edits, key=lambda e: e.site, reverse=True):
        start = starts[edit.site.line - 1] + edit.site.column - 1
        stop = starts[edit.site.end_line - 1] + edit.site.end_column - 1
        text = text[:start] + edit.text + text[stop:]
    return text


def _print(table: dict[str, Counter[str]], reasons: Counter[str]) -> None:
    columns = ("safe", "unsafe", "none", "broken")
    print(f"{'rule':<8}", *(f"{name:>7}" for name in ("found", *columns)))
    for code, counts in sorted(table.items()):
        found = counts["safe"] + counts["unsafe"] + counts["none"]
        print(f"{code:<8}", *(f"{n:>7}" for n in (found, *(counts[c] for c in columns))))
    for why, count in reasons.most_common():
        print(f"{count:>4}  {why}")


if __name__ == "__main__":
    raise SystemExit(main())
