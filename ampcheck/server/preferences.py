"""What the client may set, under ``ampcheck`` in its own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ampcheck import registry
from ampcheck.check import Options

__all__ = ["Preferences", "read"]


@dataclass(frozen=True, slots=True)
class Preferences:
    """Which rules, whether possible findings are shown, and whether there are inlay hints."""

    options: Options = field(default_factory=Options)
    inlay_hints: bool = False


def read(given: Any) -> tuple[Preferences, list[str]]:
    """The preferences in a client's settings, and what is wrong with these, a line each."""
    if given is None:
        return Preferences(), []
    if not isinstance(given, Mapping):
        return Preferences(), ["the settings are no object: {} with names and values is expected"]
    problems: list[str] = []
    flags = {"possible": False, "inlayHints": False}
    rules: dict[str, frozenset[str]] = {"select": frozenset(), "ignore": frozenset()}
    for name, value in given.items():
        if name in flags and isinstance(value, bool):
            flags[name] = value
        elif name in rules and isinstance(value, list) and all(isinstance(item, str) for item in value):
            try:
                rules[name] = registry.select(value, registry.load())
            except registry.UnknownRuleError as error:
                problems.append(f"{name}: {error}")
        elif name in flags:
            problems.append(f"{name}: true or false is expected")
        elif name in rules:
            problems.append(f"{name}: a list of rules is expected")
        else:
            problems.append(f"{name}: no such setting; there are {', '.join((*rules, *flags))}")
    options = Options(rules["select"], rules["ignore"], flags["possible"])
    return Preferences(options, flags["inlayHints"]), problems
