"""What the client may set, under ``ampcheck`` in its own settings; the rest is the project's `[tool.ampcheck]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ampcheck import registry
from ampcheck.settings import Nearest

__all__ = ["Preferences", "read"]

LISTS = ("select", "extendSelect", "ignore")
FLAGS = ("possible", "inlayHints")


@dataclass(frozen=True, slots=True)
class Preferences:
    """Which rules, whether possible findings are shown, the settings file, and whether there are inlay hints.

    The rules and the file are what the options of the command line are to `ampcheck check`.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    possible: bool = False
    configuration: str | None = None
    inlay_hints: bool = False

    def nearest(self) -> Nearest:
        """Where the settings of the files come from; those excluded are not checked, though somebody opens them."""
        given = {"force_exclude": True} | ({"possible": True} if self.possible else {})
        return Nearest(
            config=self.configuration,
            select=self.select,
            extend_select=self.extend_select,
            ignore=self.ignore,
            given=given,
        )


def read(given: Any) -> tuple[Preferences, list[str]]:
    """The preferences in a client's settings, and what is wrong with these, a line each."""
    if given is None:
        return Preferences(), []
    if not isinstance(given, Mapping):
        return Preferences(), ["no object: {} with names and values is expected"]
    problems: list[str] = []
    good: dict[str, Any] = {}
    for name, value in given.items():
        problem = _problem(name, value)
        if problem:
            problems.append(f"{name}: {problem}")
        else:
            good[name] = value
    rules = {name: tuple(good.get(name, ())) for name in LISTS}
    return Preferences(
        rules["select"],
        rules["extendSelect"],
        rules["ignore"],
        good.get("possible", False),
        good.get("configuration") or None,
        good.get("inlayHints", False),
    ), problems


def _problem(name: str, value: Any) -> str:
    """What is wrong with a setting; "" if nothing is."""
    if name in FLAGS:
        return "" if isinstance(value, bool) else "true or false is expected"
    if name == "configuration":
        return "" if isinstance(value, str) or value is None else "the path of a settings file is expected"
    if name not in LISTS:
        return f"no such setting; there are {', '.join((*LISTS, *FLAGS, 'configuration'))}"
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "a list of rules is expected"
    try:
        registry.select(value, registry.load())
    except registry.UnknownRuleError as error:
        return str(error)
    return ""
