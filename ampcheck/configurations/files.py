"""Configuration files as dicts: JSON and YAML, found from the folder of the code upwards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from ampcheck.configurations.answers import Problem
from ampcheck.source import Unreadable, read_bytes

__all__ = ["beside", "find", "load"]

LEVELS = 3
"""How many folders upwards a relative path is tried: scripts are started from their project's root."""

LARGEST = 2**20
FOLDERS = ("", "configs", "config", "accelerate_configs", "accelerate_config")


def find(code: str, name: str) -> str | None:
    """The file that the code at `code` calls `name`, or None."""
    folder = os.path.dirname(os.path.abspath(code))
    for _ in range(LEVELS):
        path = os.path.join(folder, os.path.expanduser(name))
        if os.path.isfile(path):
            return os.path.relpath(path) if not os.path.isabs(code) else os.path.normpath(path)
        folder = os.path.dirname(folder)
    return None


def beside(code: str) -> Iterator[str]:
    """The YAML files in the folder of the code, and in those that people keep such files in."""
    for name in FOLDERS:
        folder = os.path.join(os.path.dirname(code), name)
        if os.path.isdir(folder):
            for entry in sorted(os.listdir(folder)):
                if entry.endswith((".yaml", ".yml")) and os.path.isfile(os.path.join(folder, entry)):
                    yield os.path.join(folder, entry)


def load(path: str) -> dict[str, Any] | Problem:
    """The file's top-level mapping, or why there is none."""
    try:
        data = read_bytes(path)
        if len(data) > LARGEST:
            return Problem(path, f"larger than {LARGEST} bytes: not read as a configuration")
        text = data.decode("utf-8-sig")
        value = json.loads(text) if path.endswith(".json") else _yaml(text)
    except Unreadable as error:
        return Problem(path, str(error), error.line)
    except json.JSONDecodeError as error:
        return Problem(path, f"not JSON: line {error.lineno}: {error.msg}", error.lineno)
    except UnicodeDecodeError:
        return Problem(path, "cannot be decoded: save it as UTF-8")
    except RecursionError:
        return Problem(path, "nested too deeply to be read")
    except ValueError as error:
        return Problem(path, *_spelled(error))
    if not isinstance(value, dict):
        return Problem(path, "holds no mapping of names to values, so nothing is configured by it")
    return value


def _yaml(text: str) -> Any:
    """YAML as plain values; raises ValueError."""
    import yaml  # type: ignore[import-untyped]  # here, since few files need it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise ValueError(
            f"not YAML: line {line}: {getattr(error, 'problem', None) or 'cannot be parsed'}", line
        ) from None


def _spelled(error: ValueError) -> tuple[str, int]:
    message, line = error.args[0] if error.args else "cannot be read", error.args[-1]
    return str(message), line if isinstance(line, int) else 1
