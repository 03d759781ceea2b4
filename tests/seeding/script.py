"""A correct loop's source as lines, and the small edits that faults are made of.

A *mark* is a pattern for one kind of statement of a training step (`UNSCALE`, `CLIP`); every loop in `loops/` spells
them so that a mark finds them.  What a loop lacks makes a seed impossible there, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "AUTOCAST",
    "BACKWARD",
    "BEFORE",
    "BOUNDARY",
    "CLIP",
    "DIVIDE",
    "EPOCHS",
    "GUARD",
    "LOSS",
    "OPTIMIZER",
    "SCALER",
    "SCHEDULE",
    "STEP",
    "UNSCALE",
    "UPDATE",
    "ZERO",
    "Edit",
    "Impossible",
    "Script",
]

AUTOCAST = r"with torch\.autocast\("
LOSS = r"loss = .*(model|net|decoder)\("
DIVIDE = r"loss = loss / (?P<window>[\w.]+)$"
BACKWARD = r"\.backward\(\)$"
BOUNDARY = r"if (?P<test>last|(?!before|pending:).*(==|%).*):$"
UNSCALE = r"\.unscale_\("
CLIP = r"clip_grad_norm_\("
BEFORE = r"before = .*get_scale\(\)$"
STEP = r"^\s*(?:[\w.]*(?:scaler|amp)\.step\([\w.]+\)|[\w.]*(?:optimizer|opt)\w*\.step\(\))$"
UPDATE = r"(?:scaler|amp)\.update\(\)$"
ZERO = r"\.zero_grad\("
GUARD = r"if before <= .*get_scale\(\):$"
SCHEDULE = r"(?:scheduler|sched)\.step\(\)$"
OPTIMIZER = r"(?P<optimizer>[\w.]+) = torch\.optim\.\w+\((?P<model>[\w.]+)\.parameters\(\)"
SCALER = r"(?P<scaler>[\w.]+) = (?:torch\.amp\.)?GradScaler\("
EPOCHS = r"for epoch in range\("

MISSING = {
    DIVIDE: "it has no window",
    BOUNDARY: "it has no boundary test",
    UNSCALE: "it has no scaler",
    UPDATE: "it has no scaler",
    SCALER: "it has no scaler",
    BEFORE: "its schedule has no guard",
    GUARD: "its schedule has no guard",
    SCHEDULE: "it has no schedule",
    EPOCHS: "it has no loop over epochs",
}


class Impossible(Exception):
    """A fault cannot exist in a loop; the message says why."""


class Script:
    """Source to be edited; every edit changes all statements of a kind, unless it says otherwise."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()

    @property
    def source(self) -> str:
        """The whole text."""
        return "\n".join(self.lines) + "\n"

    def has(self, mark: str) -> bool:
        """Whether there is such a statement."""
        return any(re.search(mark, line) for line in self.lines)

    def places(self, mark: str) -> list[int]:
        """The indices of its lines, at least one."""
        found = [i for i, line in enumerate(self.lines) if re.search(mark, line)]
        if not found:
            raise Impossible(MISSING.get(mark, f"it has no `{mark}`"))
        return found

    def name(self, kind: str) -> str:
        """How the loop calls its first "scaler", "optimizer", "model" or "window"."""
        return self.names(kind)[0]

    def names(self, kind: str) -> list[str]:
        """How it calls all of them."""
        mark = {"scaler": SCALER, "window": DIVIDE}.get(kind, OPTIMIZER)
        matches = [re.search(mark, self.lines[i]) for i in self.places(mark)]
        return [match[kind] for match in matches if match]

    def drop(self, mark: str, count: int | None = None) -> None:
        """Delete the statements, or the first few."""
        gone = set(self.places(mark)[:count])
        self.lines = [line for i, line in enumerate(self.lines) if i not in gone]

    def replace(self, mark: str, pattern: str, new: str) -> None:
        """Change a part of the statements."""
        for i in self.places(mark):
            changed = re.sub(pattern, new, self.lines[i])
            if changed == self.lines[i]:
                raise Impossible(f"`{self.lines[i].strip()}` has no `{pattern}`")
            self.lines[i] = changed

    def before(self, mark: str, *new: str) -> None:
        """Put lines before each statement, as deep as it is."""
        self._beside(mark, 0, new)

    def after(self, mark: str, *new: str, deeper: int = 0) -> None:
        """Put lines behind each statement, as deep as it is or deeper."""
        self._beside(mark, 1, new, deeper)

    def _beside(self, mark: str, offset: int, new: Sequence[str], deeper: int = 0) -> None:
        for i in reversed(self.places(mark)):
            indent = self.indent(i) + "    " * deeper
            self.lines[i + offset : i + offset] = [indent + line for line in new]

    def on_top(self, *new: str) -> None:
        """Put lines behind the imports."""
        last = max(i for i, line in enumerate(self.lines) if re.match(r"import |from ", line))
        self.lines[last + 1 : last + 1] = new

    def texts(self, mark: str) -> list[str]:
        """The statements without their indentation."""
        return [self.lines[i].strip() for i in self.places(mark)]

    def double(self, mark: str) -> None:
        """Each statement twice."""
        for i in reversed(self.places(mark)):
            self.lines.insert(i, self.lines[i])

    def move_before(self, mark: str, target: str) -> None:
        """Take the statements away and put them before another one."""
        self._move(mark, lambda texts: self.before(target, *texts))

    def move_after(self, mark: str, target: str) -> None:
        """Take the statements away and put them behind another one."""
        self._move(mark, lambda texts: self.after(target, *texts))

    def _move(self, mark: str, put: Callable[[Sequence[str]], None]) -> None:
        texts = list(dict.fromkeys(self.texts(mark)))
        self.drop(mark)
        put(texts)

    def indent(self, index: int) -> str:
        """The white space that a line begins with."""
        line = self.lines[index]
        return line[: len(line) - len(line.lstrip())]

    def block(self, index: int) -> range:
        """The lines inside the compound statement at an index."""
        inside = len(self.indent(index)) + 1
        stop = index + 1
        while stop < len(self.lines) and (not self.lines[stop].strip() or len(self.indent(stop)) >= inside):
            stop += 1
        while not self.lines[stop - 1].strip():
            stop -= 1
        return range(index + 1, stop)

    def unwrap(self, mark: str) -> None:
        """Take the heads of compound statements away: what is inside always runs."""
        for i in reversed(self.places(mark)):
            for j in self.block(i):
                self.lines[j] = self.lines[j].removeprefix("    ")
            del self.lines[i]

    def wrap(self, first: str, last: str, *heads: str) -> None:
        """Put the lines from one statement to another under a head."""
        start, stop = self.places(first)[0], self.places(last)[0]
        indent = self.indent(start)
        inside = ["    " + line if line.strip() else line for line in self.lines[start : stop + 1]]
        self.lines[start : stop + 1] = [*(indent + head for head in heads), *inside]

    def fill(self) -> None:
        """Write `pass` into blocks that have lost their statements."""
        for i in reversed(list(self._empty())):
            self.lines.insert(i + 1, self.indent(i) + "    pass")

    def _empty(self) -> Iterator[int]:
        for i, line in enumerate(self.lines):
            if re.match(r"\s*(if|for|with|else|while|def)\b.*:$", line):
                following = next(filter(str.strip, self.lines[i + 1 :]), "")
                if len(following) - len(following.lstrip()) <= len(self.indent(i)):
                    yield i


Edit = Callable[[Script], None]
