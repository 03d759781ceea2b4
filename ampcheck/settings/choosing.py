"""Which findings of a file are reported, and how severely: what the settings and the command line come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ampcheck import registry
from ampcheck.finding import Finding
from ampcheck.rule import Rule, Severity
from ampcheck.settings.definition import Settings

__all__ = ["Options", "chosen"]


@dataclass(frozen=True, slots=True)
class Options:
    """What to report: codes selected and ignored, whether possible findings are shown, and other severities by code.

    None selected: all but those that are off unless they are.
    """

    select: frozenset[str] = field(default_factory=frozenset)
    ignore: frozenset[str] = field(default_factory=frozenset)
    possible: bool = False
    severities: Mapping[str, Severity] = field(default_factory=dict)

    def wants(self, finding: Finding) -> bool:
        """Whether a finding is to be reported."""
        if self.select and finding.code not in self.select:
            return False
        return finding.code not in self.ignore and (self.possible or finding.verdict == "certain")

    def applies(self, rule: Rule) -> bool:
        """Whether a rule has to be run at all."""
        return not rule.opt_in or rule.code in self.select

    def rated(self, finding: Finding) -> Finding:
        """The finding with the severity that was asked for; what is milder than its rule anyway stays as it is."""
        severity = self.severities.get(finding.code)
        usual = next((rule.severity for rule in registry.load() if rule.code == finding.code), None)
        if severity is None or finding.severity != usual:
            return finding
        return replace(finding, severity=severity)


def chosen(settings: Settings, also_ignored: Iterable[str] = ()) -> Options:
    """The options that settings stand for; `also_ignored` are selectors whatever else is selected.

    Where a rule is selected and ignored, the longer selector decides, and `ignore` between equals.
    """
    rules = registry.load()
    selected = (*settings.select, *settings.extend_select)
    on = {
        rule.code
        for rule in rules
        if (_length(rule, selected) or (not settings.select and not rule.opt_in))
        and _length(rule, settings.ignore) < (_length(rule, selected) or 1)
    }
    return Options(
        select=frozenset(on),
        ignore=registry.select(also_ignored, rules) if on else frozenset(rule.code for rule in rules),
        possible=settings.possible,
        severities=_severities(settings, rules),
    )


def _length(rule: Rule, selectors: Iterable[str]) -> int:
    """How much of a rule's code its longest selector spells; a name spells all of it; 0 where there is none."""
    spelled = (
        len(s) if rule.code.startswith(s.upper()) else len(rule.code) for s in selectors if _is(rule, s)
    )
    return max(spelled, default=0)


def _is(rule: Rule, selector: str) -> bool:
    return rule.code in registry.select([selector], registry.load())


def _severities(settings: Settings, rules: tuple[Rule, ...]) -> dict[str, Severity]:
    """By code: a prefix says less than a longer one."""
    found: dict[str, Severity] = {}
    for selector, severity in sorted(settings.severity, key=lambda pair: len(pair[0])):
        found.update(dict.fromkeys(registry.select([selector], rules), severity))
    return found
