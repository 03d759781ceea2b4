"""The rules' documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ampcheck import pages, registry
from ampcheck.rule import OBSERVABLES, Rule


def test_the_pages_in_docs_are_up_to_date(checkout: Path) -> None:
    stale = pages.stale(checkout / "docs" / "rules", registry.built_in())
    assert not stale, "run `python -m ampcheck.pages`"


def test_every_observable_can_be_described() -> None:
    assert set(pages.OBSERVED) == set(OBSERVABLES)


@pytest.mark.parametrize("rule", registry.built_in(), ids=lambda rule: rule.code)
def test_a_docstring_has_the_sections_of_a_page(rule: Rule) -> None:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"(?s)```.*?```", "", pages.page(rule)), flags=re.MULTILINE)[
        1:
    ]
    known = [*pages.HEADINGS, "Fix"]
    assert set(headings) <= set(known)
    assert headings == sorted(headings, key=known.index)
    assert headings[:2] == list(pages.HEADINGS[:2])
    assert len(pages.summary(rule)) <= 110


@pytest.mark.parametrize("rule", registry.built_in(), ids=lambda rule: rule.code)
def test_a_rule_says_how_it_is_confirmed_or_why_not(rule: Rule) -> None:
    assert bool(rule.oracle or rule.measured) != bool(rule.unobservable)


def test_writing_brings_a_folder_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "rules"
    rules = registry.built_in()
    assert pages.write(folder, rules) == sorted(pages.pages(rules))
    (folder / "gone-rule.md").write_text("of a rule that was removed")
    (folder / "index.md").write_text("stale")
    assert pages.stale(folder, rules) == ["gone-rule.md", "index.md"]
    assert pages.write(folder, rules) == ["gone-rule.md", "index.md"]
    assert pages.write(folder, rules) == []


def test_the_command_writes_the_checkout_s_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "__file__", str(tmp_path / "ampcheck" / "pages.py"))
    assert pages.main() == 2
    (tmp_path / "rules").mkdir()
    assert pages.main() == 0
    assert "docs/rules/index.md" in capsys.readouterr().out.splitlines()[-1] or capsys.readouterr().out == ""
    assert (tmp_path / "docs" / "rules" / "index.md").exists()
