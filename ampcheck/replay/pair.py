"""Two processes that each hold a shard, seen from the worker: started once, asked as often as need be."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from ampcheck.replay.observe import Observed, Vector
from ampcheck.replay.scenarios import WORLD, Scenario
from ampcheck.replay.script import Cast, Op

__all__ = ["Pair", "command"]

LIMIT = 180.0
"""Seconds for one script on both processes, of which importing torch may take many the first time."""

T = TypeVar("T")


def command(rank: int, store: str) -> Sequence[str]:
    """How one of the processes is started."""
    return (sys.executable, "-P", "-m", "ampcheck.replay.shards", str(rank), store)


class Pair:
    """Both processes; they end when this one does, since their input ends then."""

    def __init__(self) -> None:
        self.expired = False
        self.folder = tempfile.TemporaryDirectory(prefix="ampcheck-")
        store = str(Path(self.folder.name) / "store")
        self.processes = [
            subprocess.Popen(
                command(rank, store),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            for rank in range(WORLD)
        ]

    def execute(self, members: Cast, ops: Sequence[Op], scenario: Scenario) -> Observed:
        """Run a script on both; raises `RuntimeError` where one of them fails, and then they are of no more use."""
        timer = threading.Timer(LIMIT, self._expire)
        timer.start()
        try:
            return self._execute(members, ops, scenario)
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self.expired = True
        for process in self.processes:
            process.kill()

    def _execute(self, members: Cast, ops: Sequence[Op], scenario: Scenario) -> Observed:
        task = json.dumps({"members": members, "ops": list(ops), "scenario": asdict(scenario)})
        answers: list[dict[str, Any]] = []
        try:
            for process in self.processes:
                assert process.stdin is not None
                process.stdin.write(task + "\n")
                process.stdin.flush()
            for process in self.processes:
                assert process.stdout is not None
                answers.append(json.loads(process.stdout.readline()))
        except (OSError, ValueError) as error:
            raise RuntimeError(self._why()) from error
        for answer in answers:
            if "broken" in answer:
                raise RuntimeError(f"the processes with shards did not meet: {answer['broken']}")
        return _whole([Observed(**answer) for answer in answers])

    def _why(self) -> str:
        if self.expired:
            return f"the processes with shards took more than {LIMIT:g} s and were stopped"
        gone = next(filter(None, map(_ended, self.processes)), None)
        how = "talks nonsense" if gone is None else "was killed" if gone < 0 else "ended"
        return f"a process with a shard {how}" + (f" ({gone})" if gone is not None else "")

    def close(self) -> None:
        """End both processes."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()


def _ended(process: subprocess.Popen[str]) -> int | None:
    """The exit code of a process that ends, or has; one that closed its output needs a moment."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def _whole(seen: Sequence[Observed]) -> Observed:
    """What both ranks saw as one: gradients and parameters put together, steps and scales of the others under their own
    names."""
    first = seen[0]
    for rank, other in enumerate(seen[1:], start=1):
        first.steps = {**first.steps, **_renamed(other.steps, rank)}
        first.scale = {**first.scale, **_renamed(other.scale, rank)}
        for mine, its in ((first.gradient, other.gradient), (first.carried, other.carried)):
            for owner, vectors in mine.items():
                mine[owner] = [a + b for a, b in _paired(vectors, its.get(owner, []))]
        for owner, weights in first.parameters.items():
            first.parameters[owner] = weights + other.parameters.get(owner, [])
    return first


def _renamed(series: Mapping[str, T], rank: int) -> dict[str, T]:
    return {f"{name} on rank {rank}": value for name, value in series.items()}


def _paired(mine: Sequence[Vector], its: Sequence[Vector]) -> list[tuple[Vector, Vector]]:
    return [(a or [], b or []) for a, b in zip_longest(mine, its)]
