"""A progress bar on standard error, where somebody watches and the work turns out to be long."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from ampcheck.report.line import console

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Progress"]


class Progress:
    """Counts what is done; draws a bar once `patience` seconds have passed on a terminal.

    `total` is None where it is not known beforehand: the bar then only moves.
    """

    def __init__(self, what: str, stream: TextIO, total: int | None = None, patience: float = 0.5) -> None:
        self._what, self._stream, self._total = what, stream, total
        self._done = 0
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._watched = stream.isatty()
        self._due = time.monotonic() + patience

    def __enter__(self) -> Progress:
        if self._watched and time.monotonic() >= self._due:
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, path: str) -> None:
        """One more is done, or begun; `path` is what the bar shows beside it."""
        self._done += 1
        if not self._watched:
            return
        if self._bar is None and time.monotonic() >= self._due:
            self._draw()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, path=path)

    def _draw(self) -> None:
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn(escape(self._what)),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[path]}", markup=False),
            console=console(self._stream),
            transient=True,
        )
        self._task = self._bar.add_task(self._what, total=self._total, completed=self._done, path="")
        self._bar.start()
