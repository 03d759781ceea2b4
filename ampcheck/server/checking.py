"""When to check: soon after the last keystroke, one check at a time, and never for a text that is out of date.

A check runs in a thread of its own.  What changes meanwhile makes it stale: it is given up at the next run of a loop
that it comes to, and the files are checked again as they are then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from ampcheck.finding import Finding, Fix
from ampcheck.server.files import OpenFile
from ampcheck.server.session import Outcome, Session

__all__ = ["Checking"]

# How long a text must have been left alone, in seconds: longer where a check takes long, since it would be given up
# often.
SHORTEST = 0.02
LONGEST = 0.5
SHARE = 0.05
# A check that takes longer than this is shown as work in progress.
PATIENCE = 0.5


class Stale(BaseException):
    """What is being checked has changed.  No `Exception`: a check catches those, to go on with the next file."""


@dataclass(slots=True)
class Checking:
    """Checks what is open whenever something has changed, and hands on what came out.

    `files` gives what is open.  `progress` is told of a check that takes long, with the file it is at, and None when it
    is over; `failed` of what should not have happened.
    """

    session: Session
    files: Callable[[], Mapping[str, OpenFile]]
    publish: Callable[[Outcome], None]
    progress: Callable[[str | None], Awaitable[None]]
    failed: Callable[[Exception], None]
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "check"))
    _version: int = 0
    _seconds: float = 0.0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def changed(self, *, at_once: bool = False) -> None:
        """Something has changed: check again, after a while unless it is to be done at once."""
        self._version += 1
        delay = 0.0 if at_once else min(SHORTEST + SHARE * self._seconds, LONGEST)
        task = asyncio.get_running_loop().create_task(self._check(self._version, delay))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def fixes(self, findings: Sequence[Finding]) -> list[tuple[Finding, Fix]]:
        """The fixes of findings; they are looked for where checks are made, one after the other."""
        work = partial(self.session.fixes, findings)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work) if findings else []

    def stop(self) -> None:
        """Give up whatever is being done."""
        self._version += 1
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _check(self, version: int, delay: float) -> None:
        await asyncio.sleep(delay)
        if version != self._version:
            return
        files = self.files()
        reached: list[str] = []

        def pulse() -> None:
            if version != self._version:
                raise Stale

        def check() -> Outcome | None:
            begun = monotonic()
            try:
                pulse()
                outcome = self.session.check(files, on_file=reached.append, pulse=pulse)
            except Stale:
                return None
            self._seconds = monotonic() - begun
            return outcome

        try:
            job = asyncio.get_running_loop().run_in_executor(self._thread, check)
            await asyncio.wait({job}, timeout=PATIENCE)
            if not job.done():
                await self.progress(os.path.basename(reached[-1]) if reached else "")
                await asyncio.wait({job})
                await self.progress(None)
            outcome = job.result()
            if outcome is not None and version == self._version:
                self.publish(outcome)
        except Exception as error:
            self.failed(error)
