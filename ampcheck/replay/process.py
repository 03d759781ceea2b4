"""The subprocess that has torch, seen from the process that has not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["OLDEST_TORCH", "Ended", "ReplayUnavailable", "ask", "require_torch"]

OLDEST_TORCH = (2, 3)
"""The first torch whose ``GradScaler("cpu")`` is a real one."""

KEPT_OUTPUT = 2000
"""Characters of the subprocess's error output that are kept for a message."""


class ReplayUnavailable(Exception):
    """There is nothing here to replay on; the message says what to install or to ask for."""


class Ended(Exception):
    """The subprocess is gone, or talks nonsense, before it has answered everything; the message says how."""


def require_torch() -> None:
    """Raises `ReplayUnavailable` where torch is missing or too old, without importing it."""
    advice = 'install it with: pip install "ampcheck[replay]"'
    if importlib.util.find_spec("torch") is None:
        raise ReplayUnavailable(f"the replay needs torch, which is not installed; {advice}")
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return  # an unpackaged build: the subprocess will tell
    release = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if release < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ReplayUnavailable(f"the replay needs torch {oldest} or newer, this is {version}; {advice}")


def ask(request: dict[str, Any], timeout: float, on_answer: Callable[[dict[str, Any]], None]) -> None:
    """Send one request and hand on each answer as it comes.

    Raises `ReplayUnavailable` where the device does not exist and `Ended` where fewer answers came than jobs were sent;
    the answers until then have been handed on.
    """
    process = subprocess.Popen(
        command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    errors: list[str] = []
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(timeout, expire)
    feeding = threading.Thread(target=_feed, args=(process, json.dumps(request)), daemon=True)
    draining = threading.Thread(target=_drain, args=(process, errors), daemon=True)
    for thread in (timer, feeding, draining):
        thread.start()
    try:
        missing = len(request["jobs"])
        assert process.stdout is not None
        for line in process.stdout:
            answer = _parsed(line)
            if "unavailable" in answer:
                raise ReplayUnavailable(answer["unavailable"])
            if "id" in answer:
                missing -= 1
                on_answer(answer)
        code = process.wait()
        draining.join(1.0)
        if missing:
            raise Ended(_why(code, timeout if expired.is_set() else None, "".join(errors)))
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
        process.wait()


def command() -> Sequence[str]:
    """How the subprocess is started: the same Python, and never a module from the directory that is checked."""
    return (sys.executable, "-P", "-m", "ampcheck.replay.worker")


def _environment() -> dict[str, str]:
    """With this very ampcheck importable, wherever it is run from."""
    here = str(Path(__file__).resolve().parents[2])
    path = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONIOENCODING": "utf-8"}


def _feed(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text)
        process.stdin.close()
    except OSError:  # it died first; its exit code says more
        pass


def _drain(process: subprocess.Popen[str], errors: list[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        errors.append(line)
        if len(errors) > 100:
            del errors[0]


def _parsed(line: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Ended(f"the replay's process wrote something that is no answer: {line.strip()[:80]!r}")
    return answer


def _why(code: int, timeout: float | None, errors: str) -> str:
    if timeout is not None:
        return f"the replay took more than {timeout:g} s and was stopped"
    last = errors.strip()[-KEPT_OUTPUT:].splitlines()[-1:] or [""]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the replay's process {how}{f': {last[0]}' if last[0] else ''}"
