"""The commands: what they ask for, what they say, and their exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ampcheck import registry
from ampcheck.cli import main
from ampcheck.events import Site
from ampcheck.finding import Failure, Finding, Replay, Report

Checked = Callable[[Report], list[tuple[list[str], Any]]]


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Replay | str], list[str]]:
    """Make the replay come out in one way for every finding; the returned list collects the devices."""

    class ReplayUnavailable(Exception):
        pass

    def stand_in(outcome: Replay | str) -> list[str]:
        devices: list[str] = []

        def replay(
            findings: tuple[Finding, ...], *, device: str, on_result: Callable[[Finding], None]
        ) -> tuple[Finding, ...]:
            devices.append(device)
            if isinstance(outcome, str):
                raise ReplayUnavailable(outcome)
            for finding in findings:
                on_result(finding)
            return tuple(replace(finding, replay=outcome) for finding in findings)

        module = ModuleType("ampcheck.replay")
        vars(module).update(replay=replay, ReplayUnavailable=ReplayUnavailable)
        monkeypatch.setitem(sys.modules, "ampcheck.replay", module)
        return devices

    return stand_in


@pytest.mark.parametrize(
    ("severity", "options", "code"),
    [
        ("error", [], 1),
        ("warning", [], 1),
        ("note", [], 0),
        ("error", ["--exit-zero"], 0),
        ("error", ["--format", "json"], 1),
    ],
)
def test_findings_decide_the_exit_code(
    severity: Any, options: list[str], code: int, clipped: Finding, checked: Checked
) -> None:
    checked(Report((replace(clipped, severity=severity),), files=1))
    assert main(["check", "train.py", *options]) == code


def test_paths_alone_are_checked(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = checked(Report(files=1))
    assert main(["train.py"]) == 0
    assert main([]) == 0
    assert [paths for paths, _ in asked] == [["train.py"], ["."]]
    assert capsys.readouterr().out == "Clean: 1 file analysed\n" * 2


def test_a_missing_path_is_one_line_and_the_others_are_checked(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = checked(Report(files=1))
    assert main(["check", "nowhere", "train.py", "--exit-zero"]) == 2
    assert asked[0][0] == ["train.py"]
    said = capsys.readouterr()
    assert said.err == "ampcheck: nowhere: no such file or directory\n"
    assert said.out == "Nothing found in 1 file analysed, 1 not analysed\n"


def test_a_missing_path_is_an_error_in_json_too(checked: Checked, capsys: pytest.CaptureFixture[str]) -> None:
    checked(Report(files=1))
    assert main(["nowhere", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "findings": [],
        "errors": [{"path": "nowhere", "message": "no such file or directory"}],
        "files": 0,
    }


def test_a_folder_without_python_is_not_clean(
    tmp_path: Path, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report())
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"ampcheck: {tmp_path}: no Python file found\n"


def test_a_broken_file_is_said_once(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Finding("AMP900", "unreadable-file", "error", "certain", Site("x.py", 1, 1, 1, 1), "not Python")
    checked(Report((broken,), (Failure("x.py", "not Python"),), files=1))
    assert main(["train.py"]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.count("not Python") == 1


def test_a_broken_file_whose_finding_is_ignored_is_still_not_clean(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((), (Failure("x.py", "not Python"),), files=1))
    assert main(["train.py", "--exit-zero"]) == 2
    assert capsys.readouterr().err == "ampcheck: x.py: not Python\n"


def test_rules_are_selected_by_code_name_and_prefix(
    clipped: Finding, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = checked(Report(files=1))
    rules = registry.load()
    first, last = rules[0], rules[-1]
    assert main(["train.py", "--select", f"amp1,{last.name}", "--ignore", first.code.lower()]) == 0
    options = asked[0][1]
    ones = {rule.code for rule in rules if rule.code.startswith("AMP1")}
    assert options.select == (ones | {last.code}) - {first.code}


def test_an_unknown_rule_is_one_line(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = checked(Report(files=1))
    assert main(["train.py", "--select", "AMP1O1"]) == 2
    assert not asked
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ampcheck: unknown rule 'AMP1O1': did you mean AMP")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--nonsense"],
        ["check", "--format", "xml"],
        ["replay", "--device", "x"],
        ["check", "--since", ""],
        ["audit", "--output", ""],
    ],
)
def test_a_bad_option_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fromat", "json"], "ampcheck check: unknown option --fromat: did you mean --format?"),
        (["check", "--ignroe=AMP1"], "ampcheck check: unknown option --ignroe: did you mean --ignore?"),
        (["audit", "--output-flie", "x.html"], "ampcheck audit: unknown option --output-flie: did you mean"),
        (["rules", "--json"], "ampcheck rules: unknown option --json (see `ampcheck rules --help`)"),
        (["rules", "AMP101"], "ampcheck rules: one argument too many: 'AMP101'"),
    ],
)
def test_an_option_that_a_command_does_not_have(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["chek", "train.py"], "check"),
        (["audti", "."], "audit"),
        (["explian", "AMP101"], "explain"),
        (["rule"], "rules"),
    ],
)
def test_a_misspelled_command_is_not_taken_for_a_path(
    arguments: list[str], meant: str, clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = checked(Report(files=1))
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert (exit_.value.code, asked) == (2, [])
    said = capsys.readouterr().err
    assert said.startswith(
        f"ampcheck: no command or path is called {arguments[0]}: did you mean ampcheck {meant}?"
    )


def test_a_path_that_reads_like_a_command_is_checked(
    clipped: Finding, checked: Checked, tmp_path: Path
) -> None:
    asked = checked(Report(files=1))
    (tmp_path / "rule").mkdir()
    (tmp_path / "rule" / "a.py").touch()
    assert main(["rule"]) == 0
    assert [paths for paths, _ in asked] == [["rule"]]


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [(["help"], "usage: ampcheck COMMAND"), (["help", "audit"], "usage: ampcheck audit ")],
)
def test_help_is_asked_for_as_a_command_too(
    arguments: list[str], usage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith(usage)


def test_a_confirmed_finding_fails(clipped: Finding, checked: Checked, replayed: Any) -> None:
    checked(Report((clipped,), files=1))
    devices = replayed(Replay("confirmed", "cpu"))
    assert main(["replay", "train.py", "--device", "cpu"]) == 1
    assert devices == ["cpu"]


def test_a_refuted_finding_is_a_note(
    clipped: Finding, checked: Checked, replayed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped,), files=1))
    replayed(Replay("refuted", "cpu"))
    assert main(["replay", "train.py", "--format", "json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["severity"] == "note"


def test_an_inconclusive_finding_counts(clipped: Finding, checked: Checked, replayed: Any) -> None:
    checked(Report((clipped,), files=1))
    replayed(Replay("inconclusive", "cpu"))
    assert main(["replay", "train.py"]) == 1


def test_findings_are_printed_when_they_cannot_be_replayed(
    clipped: Finding, checked: Checked, replayed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped,), files=1))
    replayed("torch is not installed")
    assert main(["replay", "train.py", "--exit-zero"]) == 2
    said = capsys.readouterr()
    assert "AMP101" in said.out
    assert said.err == "ampcheck: not replayed: torch is not installed\n"


def test_nothing_found_needs_no_replay(clipped: Finding, checked: Checked, replayed: Any) -> None:
    checked(Report(files=1))
    devices = replayed("torch is not installed")
    assert main(["replay", "train.py"]) == 0
    assert not devices


def test_ctrl_c_is_quiet(
    clipped: Finding, checked: Checked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> Report:
        raise KeyboardInterrupt

    checked(Report())
    monkeypatch.setattr(sys.modules["ampcheck.check"], "check_paths", interrupted)
    assert main(["train.py"]) == 130
    assert capsys.readouterr() == ("", "")


def test_rules_lists_each_rule_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [[r.code, r.name, r.severity] for r in registry.load()]


def test_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["code"], one["name"], one["severity"]) for one in listed] == [
        (rule.code, rule.name, rule.severity) for rule in registry.load()
    ]
    by_code = {one["code"]: one for one in listed}
    assert by_code["AMP101"] == {
        "code": "AMP101",
        "name": "clip-before-unscale",
        "severity": "error",
        "summary": "Gradients are clipped while they still carry the loss scale",
        "default": True,
        "fixable": True,
        "oracle": ["gradient", "clip-norm"],
        "hint": "call scaler.unscale_(optimizer) before the clip",
        "url": "https://github.com/ampcheck/ampcheck/blob/main/docs/rules/clip-before-unscale.md",
    }
    assert [code for code, one in by_code.items() if not one["default"]] == ["AMP318"]
    assert not by_code["AMP900"]["fixable"]


@pytest.mark.parametrize("by", ["code", "name"])
def test_explain_shows_a_page(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    rule = registry.load()[0]
    assert main(["explain", getattr(rule, by)]) == 0
    assert capsys.readouterr().out.startswith(f"# {rule.name} ({rule.code})\n")


def test_explain_suggests_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    rule = registry.load()[0]
    assert main(["explain", rule.name + "d"]) == 2
    assert rule.name in capsys.readouterr().err


def test_a_rule_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise registry.RegistryError("pack.py:3: Broken has no code")

    monkeypatch.setattr(registry, "load", refuse)
    assert main(["rules"]) == 2
    assert capsys.readouterr().err == "ampcheck: pack.py:3: Broken has no code\n"
