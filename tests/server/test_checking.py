"""When the server checks: the last text only, and never two at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from ampcheck.server.checking import Checking
from ampcheck.server.files import OpenFile, text
from ampcheck.server.session import Outcome, Session


class Slow(Session):
    """A session whose check takes a while, and asks now and then whether it is still wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.running = 0

    def check(
        self,
        files: Mapping[str, OpenFile],
        *,
        on_file: Callable[[str], None] | None = None,
        pulse: Callable[[], None] | None = None,
    ) -> Outcome:
        assert on_file is not None
        assert pulse is not None
        self.running += 1
        assert self.running == 1
        try:
            self.begun.append(files["train.py"].data.decode())
            on_file("train.py")
            for _ in range(40):
                pulse()
                time.sleep(0.02)
        finally:
            self.running -= 1
        return Outcome({}, {self.begun[-1]: ()})


def told(edits: list[tuple[float, str]], wait: float) -> tuple[list[str], list[str], list[str | None]]:
    """What is begun, published and shown as progress, when texts come with pauses (in seconds) before them."""
    session = Slow()
    published: list[str] = []
    shown: list[str | None] = []
    content = ""

    async def progress(file: str | None) -> None:
        shown.append(file)

    def failed(error: Exception) -> None:
        raise error

    async def go() -> None:
        nonlocal content
        checking = Checking(
            session,
            lambda: {"train.py": text("train.py", "file:///train.py", 1, content)},
            lambda outcome: published.extend(outcome.elsewhere),
            progress,
            failed,
        )
        for pause, new in edits:
            await asyncio.sleep(pause)
            content = new
            checking.changed()
        await asyncio.sleep(wait)
        checking.stop()

    asyncio.run(go())
    return session.begun, published, shown


def test_a_burst_is_checked_once_when_it_is_over() -> None:
    begun, published, _ = told([(0, "a"), (0, "b"), (0, "c")], 1.5)
    assert begun == published == ["c"]


def test_a_stale_check_is_given_up_and_says_nothing() -> None:
    begun, published, _ = told([(0, "a"), (0.3, "b")], 2)
    assert begun == ["a", "b"]
    assert published == ["b"]


def test_a_long_check_is_shown_until_it_is_over() -> None:
    assert told([(0, "a")], 1.5)[2] == ["train.py", None]
