"""`ampcheck new`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ampcheck import registry, scaffold
from ampcheck.cli import main


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout as the current folder."""
    for folder in ("rules", "fixtures"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rule_and_its_fixtures_are_made(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "brand-new-fault", "--series", "3", "--severity", "warning"]) == 0
    made = [line.removeprefix("made ") for line in capsys.readouterr().out.splitlines()[:3]]
    assert made == [
        "rules/brand_new_fault.py",
        "fixtures/brand_new_fault/wrong_loop.py",
        "fixtures/brand_new_fault/right_loop.py",
    ]
    code = scaffold.next_code(3, (rule.code for rule in registry.built_in()))
    assert f"# expect: {code}" in (fresh / made[1]).read_text()
    assert "expect" not in (fresh / made[2]).read_text()


def test_the_rule_is_valid_from_the_start(fresh: Path, checkout: Path) -> None:
    """In a copy of the checkout, the new rule is found and passes ruff as it is configured here."""
    shutil.copytree(checkout / "ampcheck", fresh / "ampcheck", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "pyproject.toml", fresh)
    assert main(["new", "brand-new-fault", "--code", "AMP199"]) == 0
    listed = subprocess.run(
        [sys.executable, "-m", "ampcheck", "rules"], cwd=fresh, capture_output=True, text=True, check=True
    )
    assert "AMP199  brand-new-fault  error" in listed.stdout
    for command in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "rules"], cwd=fresh, check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Clip_Before"], "is not a name of a rule"),
        (["brand-new-fault", "--code", "AMP9"], "is not a code"),
        (["present"], "exists already"),
    ],
)
def test_what_cannot_be_made_is_refused(
    arguments: list[str], said: str, fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh / "rules" / "present.py").touch()
    assert main(["new", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list((fresh / "fixtures").iterdir()) == []


def test_a_taken_name_or_code_is_refused(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = registry.built_in()[0]
    assert main(["new", rule.name]) == 2
    assert main(["new", "brand-new-fault", "--code", rule.code]) == 2
    assert capsys.readouterr().err.count("is taken by") == 2


def test_outside_a_checkout_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "brand-new-fault"]) == 2
    assert "checkout" in capsys.readouterr().err


def test_the_next_code_is_after_the_highest() -> None:
    assert scaffold.next_code(1, ["AMP101", "AMP107", "AMP203", "clip"]) == "AMP108"
    assert scaffold.next_code(7, []) == "AMP701"
    with pytest.raises(scaffold.ScaffoldError, match="full"):
        scaffold.next_code(1, ["AMP199"])
