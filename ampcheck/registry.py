"""Finds the rules: those of `ampcheck.rules`, and those that other packages offer as plug-ins.

A plug-in is an entry point of the group `ampcheck.rules` that names a rule class, a module, or a package whose
modules are walked.  A rule that cannot be used is refused with the file and line where it stands, and so is a
second rule under a code or name that is taken: an analysis with a rule missing would look like a clean one.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import cache
from types import ModuleType
from typing import get_args

from ampcheck.meant import close_to, did_you_mean
from ampcheck.rule import OBSERVABLES, Rule, Severity

__all__ = ["RegistryError", "UnknownRuleError", "built_in", "find", "load", "select"]

GROUP = "ampcheck.rules"


class RegistryError(Exception):
    """A rule cannot be used; the message names its file and line."""


class UnknownRuleError(Exception):
    """No rule has this code, name or prefix; the message suggests close ones."""


@cache
def built_in() -> tuple[Rule, ...]:
    """ampcheck's own rules, by code.  Raises `RegistryError` for one that cannot be used."""
    found = _instances(_walk(importlib.import_module("ampcheck.rules")))
    if not found:
        raise RegistryError(
            "ampcheck finds no rule of its own: the installation is incomplete, install it again"
        )
    return found


@cache
def load() -> tuple[Rule, ...]:
    """All rules, plug-ins included, by code.  Raises `RegistryError` for one that cannot be used."""
    from importlib.metadata import entry_points  # 25 ms that `ampcheck.pages` and the tests need not pay

    plugins = [cls for point in entry_points(group=GROUP) for cls in _offered(point.name, point.value)]
    return _instances([*map(type, built_in()), *plugins])


def find(text: str, rules: Iterable[Rule]) -> Rule:
    """The rule with this code or name, in any case.  Raises `UnknownRuleError`."""
    rules = tuple(rules)
    for rule in rules:
        if text.casefold() in (rule.code.casefold(), rule.name):
            return rule
    raise _unknown(text, rules)


def select(selectors: Iterable[str], rules: Iterable[Rule]) -> frozenset[str]:
    """The codes that a list of codes, names or prefixes of codes (``AMP1``) stands for.

    Raises `UnknownRuleError` for a selector that stands for nothing.
    """
    rules = tuple(rules)
    codes: set[str] = set()
    for selector in selectors:
        prefix = selector.upper()
        chosen = {rule.code for rule in rules if rule.name == selector.lower() or rule.code == prefix}
        chosen = chosen or {rule.code for rule in rules if rule.code.startswith(prefix)}
        if not chosen:
            raise _unknown(selector, rules)
        codes |= chosen
    return frozenset(codes)


def _unknown(text: str, rules: tuple[Rule, ...]) -> UnknownRuleError:
    if any(rule.code.startswith(text.upper()) for rule in rules):
        return UnknownRuleError(f"{text!r} stands for several rules: `ampcheck rules` lists them")
    names = close_to(text.lower(), [rule.name for rule in rules], most=3)
    codes = close_to(text.upper(), [rule.code for rule in rules], most=3)
    close = names if names and "-" in text else codes or names
    advice = did_you_mean(close) or "`ampcheck rules` lists them all"
    return UnknownRuleError(f"unknown rule {text!r}: {advice}")


def _walk(package: ModuleType) -> Iterator[type[Rule]]:
    """The rules that a module and, if it is a package, its submodules define."""
    yield from (
        value
        for value in vars(package).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == package.__name__
    )
    for info in sorted(pkgutil.iter_modules(getattr(package, "__path__", ())), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield from _walk(_imported(f"{package.__name__}.{info.name}"))


def _offered(label: str, value: str) -> Iterator[type[Rule]]:
    """The rules that one entry point stands for."""
    module_name, _, attribute = value.partition(":")
    module = _imported(module_name.strip())
    if not attribute:
        rules = list(_walk(module))
        if not rules:
            raise RegistryError(f"{module.__file__}:1: the plug-in {label!r} defines no rule")
        yield from rules
        return
    offered = getattr(module, attribute.strip(), None)
    if not (isinstance(offered, type) and issubclass(offered, Rule)):
        raise RegistryError(
            f"{_place(offered, module)}: the plug-in {label!r} offers `{attribute.strip()}`, "
            "which is not a subclass of ampcheck.rule.Rule"
        )
    yield offered


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        raise RegistryError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:  # a plug-in may raise anything while it is imported
        raise RegistryError(f"{_raised_at(error, name)}: {type(error).__name__}: {error}") from error


def _raised_at(error: Exception, name: str) -> str:
    """The innermost place outside Python's import machinery; the module's name where there is none."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in frame.filename
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else f"module {name}"


def _place(thing: object, module: ModuleType | None = None) -> str:
    """``file:line`` of a class; of its module where that is all there is."""
    if isinstance(thing, type):
        try:
            return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
        except (OSError, TypeError):
            module = sys.modules.get(thing.__module__, module)
    return f"{getattr(module, '__file__', None) or 'unknown file'}:1"


def _instances(classes: Iterable[type[Rule]]) -> tuple[Rule, ...]:
    taken: dict[str, type[Rule]] = {}
    for cls in dict.fromkeys(classes):  # two entry points may offer the same class
        for fault in _faults(cls):
            raise RegistryError(f"{_place(cls)}: {cls.__name__} {fault}")
        for key in (cls.code, cls.name):
            if key in taken:
                raise RegistryError(f"{_place(cls)}: {key} is taken by {_place(taken[key])}")
            taken[key] = cls
    return tuple(sorted((cls() for cls in set(taken.values())), key=lambda rule: rule.code))


def _faults(cls: type[Rule]) -> Iterator[str]:
    """What keeps a class from being used as a rule."""
    if missing := [
        name for name in ("code", "name", "severity") if not isinstance(getattr(cls, name, None), str)
    ]:
        yield f"has no {' and no '.join(missing)}"
        return
    if not re.fullmatch(r"[A-Z]{2,}[0-9]{3,}", cls.code):
        yield f"has the code {cls.code!r}; codes read like AMP101"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cls.name):
        yield f"has the name {cls.name!r}; names read like clip-before-unscale"
    if cls.severity not in get_args(Severity):
        yield f"has the severity {cls.severity!r}; it is one of {', '.join(get_args(Severity))}"
    if unknown := sorted(set(cls.oracle) - set(OBSERVABLES)):
        yield f"names the oracle {', '.join(map(repr, unknown))}; ampcheck.rule.OBSERVABLES lists them"
    if not (cls.__dict__.get("__doc__") or "").strip():
        yield "has no docstring, which is its documentation"
    if cls.check is Rule.check:
        yield "does not define `check`"
