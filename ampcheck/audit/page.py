"""The page: everything is computed here or below, the template only writes it down."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ampcheck import __version__, pages
from ampcheck.audit.answers import Answer
from ampcheck.audit.configured import configuration_files, configured
from ampcheck.audit.drawing import Drawing, draw
from ampcheck.audit.ownership import Ownership, ownership
from ampcheck.audit.places import Places
from ampcheck.audit.questions import answers
from ampcheck.audit.sizes import Sizes, sizes_of
from ampcheck.audit.switches import Switch, switches
from ampcheck.check import Analysed
from ampcheck.configurations import Configurations, configurations_of
from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.report.story import Step, story
from ampcheck.report.summary import count
from ampcheck.rule import Rule
from ampcheck.timeline.cells import KINDS
from ampcheck.timeline.loops import Loop, loops_of, with_findings
from ampcheck.timeline.pictures import Picture, pictures

__all__ = ["Audit", "render"]

DOCS = "https://github.com/ampcheck/ampcheck/blob/main/docs/rules"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture with its two drawings; `correct` is None where no order could be derived."""

    picture: Picture
    mine: Drawing
    correct: Drawing | None


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page says of one loop."""

    id: str
    loop: Loop
    answers: tuple[Answer, Answer, Answer]
    owners: tuple[Ownership, ...]
    drawn: tuple[Drawn, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules that are broken in it."""
        return tuple(dict.fromkeys(finding.code for finding in self.loop.findings))

    @property
    def standing(self) -> str:
        """The worst of what is known of it: "error", "warning", "note" or "good"."""
        severities = {finding.severity for finding in self.loop.findings}
        return next((s for s in ("error", "warning", "note") if s in severities), "good")


class Audit:
    """What a page is made of: a report, the files that were analysed, the paths that were asked for, the rules."""

    def __init__(
        self, report: Report, analysed: Sequence[Analysed], paths: Sequence[str], rules: Iterable[Rule]
    ) -> None:
        self.report, self.analysed, self.paths = report, analysed, paths
        self.rules = {rule.code: rule for rule in rules}
        self.places = Places(analysed, report.notebooks)

    @property
    def subject(self) -> str:
        """What was asked for, the current folder by its name."""
        return ", ".join(os.path.basename(os.path.abspath(p)) if p == "." else p for p in self.paths)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The loops, in the order of the files."""
        found = with_findings([loop for one in self.analysed for loop in loops_of(one)], self.report.findings)
        sources = {one.source.path: one.source for one in self.analysed}
        contests = {rule.code: rule.contests for rule in self.rules.values()}
        sections = []
        for number, loop in enumerate(found, start=1):
            source = sources.get(loop.path)
            configured = configurations_of(source) if source else Configurations()
            asked = answers(loop, sizes_of(source) if source else Sizes(), configured)
            drawn = tuple(self._drawn(loop, picture) for picture in pictures(loop, contests))
            sections.append(Section(f"loop-{number}", loop, asked, ownership(loop), drawn))
        return tuple(sections)

    def _drawn(self, loop: Loop, picture: Picture) -> Drawn:
        def short(site: Site) -> str:
            return self.places.short(site, loop.path)

        right = draw(picture.correct, short) if picture.correct else None
        return Drawn(picture, draw(picture.columns, short), right)

    @cached_property
    def elsewhere(self) -> tuple[Finding, ...]:
        """The findings that belong to no loop: deprecated names, configurations, files that cannot be read."""
        inside = {id(finding) for section in self.sections for finding in section.loop.findings}
        return tuple(finding for finding in self.report.findings if id(finding) not in inside)

    @cached_property
    def switches(self) -> tuple[Switch, ...]:
        """Every switch of precision and loss scale, in code and then in configuration files."""
        in_code = [switch for one in self.analysed for switch in switches(one.source)]
        in_files = [switch for path in configuration_files(self.paths) for switch in configured(path)]
        return (*in_code, *in_files)

    @property
    def by_severity(self) -> Mapping[str, int]:
        """How many findings of each severity."""
        return Counter(finding.severity for finding in self.report.findings)

    @property
    def by_rule(self) -> list[tuple[str, str, str, int]]:
        """Code, name, severity and number of the findings of each rule, in the order of the codes."""
        counted = Counter((f.code, f.name, f.severity) for f in self.report.findings)
        return [(*key, number) for key, number in sorted(counted.items())]

    @property
    def by_file(self) -> list[tuple[str, Mapping[str, int]]]:
        """The findings of each file by severity, the worst file first."""
        files: dict[str, Counter[str]] = {}
        for finding in self.report.findings:
            files.setdefault(finding.site.path, Counter())[finding.severity] += 1
        return sorted(files.items(), key=lambda f: (-f[1]["error"], -f[1]["warning"], -f[1]["note"], f[0]))

    @property
    def replays(self) -> Mapping[str, int]:
        """How the replays came out, empty where none was asked for."""
        return Counter(f.replay.outcome for f in self.report.findings if f.replay)

    def meaning(self, code: str) -> str:
        """What a rule finds, in a sentence."""
        return pages.summary(self.rules[code]) if code in self.rules else ""

    def story(self, finding: Finding) -> tuple[Step, ...]:
        """The witness of a finding."""
        return story(finding)


def render(audit: Audit, date: str) -> str:
    """The page as HTML; `date` is shown in its footer."""
    environment = Environment(
        loader=PackageLoader("ampcheck.audit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ticked": _ticked, "figure": _figure}
    environment.globals.update(
        count=count, docs=DOCS, kinds=KINDS, version=__version__, date=date, style=Markup(_style(environment))
    )
    return environment.get_template("page.html").render(audit=audit).lstrip()


def _ticked(text: str) -> Markup:
    """Text in which names stand between backquotes, as messages have it, with the names as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _figure(value: float | int | str) -> str:
    """A figure of a replay, without the noise of float32."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _style(environment: Environment) -> str:
    return environment.get_template("style.css").render()
