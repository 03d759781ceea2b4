"""From a settings file to `Settings`: every unknown key and every bad value is an error with its line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

from ampcheck import registry
from ampcheck.meant import close_to, did_you_mean
from ampcheck.settings.definition import Key, Settings, keys
from ampcheck.settings.errors import SettingsError
from ampcheck.settings.toml_lines import MISSING, line_of, located

__all__ = ["PYPROJECT", "STANDALONE", "holds_settings", "read"]

STANDALONE = "ampcheck.toml"
PYPROJECT = "pyproject.toml"
SECTION = ("tool", "ampcheck")

Problem = tuple[tuple[str, ...], object, str]
"""The path of a key in its section, the element of its array (or MISSING), and what is wrong."""


def holds_settings(path: str) -> bool:
    """Whether a file is one of ampcheck's: any that is not a `pyproject.toml`, and one with a ``[tool.ampcheck]``.

    A `pyproject.toml` that is not TOML is taken for one of ours if it mentions us.
    """
    if os.path.basename(path) != PYPROJECT:
        return True
    try:
        return located(_parsed(path)[1], SECTION) is not MISSING
    except SettingsError:
        with open(path, "rb") as file:
            return b"tool.ampcheck" in file.read()


def read(path: str) -> Settings:
    """The settings of a file; raises `SettingsError` with every problem in it."""
    text, data = _parsed(path)
    section = SECTION if os.path.basename(path) == PYPROJECT else ()
    table = located(data, section)
    if table is MISSING:
        table = {}
    if not isinstance(table, dict):
        raise SettingsError(path, [(line_of(text, section), f"`{'.'.join(section)}` is no table")])
    values, problems = _values(table)
    if problems:
        raise SettingsError(
            path, [(line_of(text, (*section, *at), element), message) for at, element, message in problems]
        )
    return Settings(path=path, root=os.path.dirname(os.path.abspath(path)), **values)


def _parsed(path: str) -> tuple[str, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
        return text.replace("\r\n", "\n"), tomllib.loads(text)
    except OSError as error:
        raise SettingsError(path, [(0, f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        raise SettingsError(path, [(0, f"cannot be decoded: {error}; save it as UTF-8")]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        at = re.search(r"\(at line (\d+), column \d+\)", str(error))
        message = re.sub(r" \(at .*\)$", "", str(error))
        line = int(at[1]) if at else text.count("\n") + 1  # "at end of document"
        raise SettingsError(path, [(line, f"not TOML: {message}")]) from None


def _values(table: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    known = {key.name: key for key in keys()}
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in table.items():
        key = known.get(name)
        if key is None:
            problems.append(((name,), MISSING, f"unknown key `{name}`: {_suggested(name, known)}"))
            continue
        wrong = list(_problems(key, value))
        problems += wrong
        if not wrong:
            values[key.field] = _frozen(value)
    return values, problems


def _suggested(name: str, known: dict[str, Key]) -> str:
    close = close_to(name.replace("_", "-").lower(), known, cutoff=0.5)
    return did_you_mean(f"`{key}`" for key in close) or f"the keys are {', '.join(known)}"


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(inner)) for name, inner in value.items())
    return tuple(value) if isinstance(value, list) else value


def _problems(key: Key, value: Any) -> Iterator[Problem]:
    """What is wrong with the value of a key."""
    at = (key.name,)
    match key.kind:
        case "rules":
            yield from _list(at, value, _rule)
        case "patterns":
            yield from _list(at, value, _pattern)
        case "folders":
            yield from _list(at, value, lambda text: "" if text else "is empty")
        case "names":
            yield from _list(at, value, _name)
        case "file":
            if not isinstance(value, str) or not value:
                yield at, MISSING, f"`{key.name}` is a file such as {key.example}, not {value!r}"
        case "flag":
            if not isinstance(value, bool):
                yield at, MISSING, f"`{key.name}` is true or false, not {value!r}"
        case "choice":
            if value not in key.choices:
                yield at, MISSING, f"`{key.name}` is one of {_listed(key.choices)}, not {value!r}"
        case "rules by pattern":
            for pattern, codes in _table(at, value):
                if wrong := _pattern(pattern):
                    yield (*at, pattern), MISSING, f"`{pattern}` {wrong}"
                yield from _list((*at, pattern), codes, _rule)
        case "severity by rule":
            for rule, severity in _table(at, value):
                if wrong := _rule(rule):
                    yield (*at, rule), MISSING, wrong
                if severity not in key.choices:
                    yield (
                        (*at, rule),
                        MISSING,
                        f"a severity is one of {_listed(key.choices)}, not {severity!r}",
                    )
    if key.kind in ("rules by pattern", "severity by rule") and not isinstance(value, dict):
        yield at, MISSING, f"`{key.name}` is a table such as {key.example}"


def _listed(choices: tuple[str, ...]) -> str:
    return ", ".join(f'"{choice}"' for choice in choices)


def _table(at: tuple[str, ...], value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _list(at: tuple[str, ...], value: Any, fault: Callable[[str], str]) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield at, MISSING, f"`{'.'.join(at)}` is a list of strings, such as [{value!r}]"
        return
    for element in value:
        if not isinstance(element, str):
            yield at, element, f"`{'.'.join(at)}` is a list of strings, and {element!r} is none"
        elif wrong := fault(element):
            yield at, element, wrong if wrong.startswith("unknown rule") else f"{element!r} {wrong}"


def _rule(text: str) -> str:
    try:
        registry.select([text], registry.load())
    except registry.UnknownRuleError as error:
        return str(error)
    return ""


def _name(text: str) -> str:
    if all(part.isidentifier() for part in text.split(".")):
        return ""
    return "is no Python name; names read like LossScaler or company.amp.LossScaler"


def _pattern(text: str) -> str:
    from pathspec import GitIgnoreSpec  # where there is something to match

    try:
        patterns = GitIgnoreSpec.from_lines([text]).patterns
    except ValueError as error:
        return f"is no pattern: {error}"
    return "" if any(pattern.include is not None for pattern in patterns) else "matches no file"
