"""`docs/cli.md`, and the completion of options by shells."""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampcheck import manual, registry
from ampcheck.cli import COMMANDS, main, parser
from ampcheck.options.completion import SHELLS
from ampcheck.options.groups import ORDER

# --- docs/cli.md ------------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date(checkout: Path) -> None:
    page = (checkout / "docs" / "cli.md").read_text("utf-8")
    assert page == manual.manual(), "run `python -m ampcheck.manual`"


def arguments() -> Iterator[tuple[str, argparse.Action]]:
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        yield from ((name, action) for action in command._actions if action.dest != "help")


def test_every_argument_is_explained() -> None:
    assert [(name, action.dest) for name, action in arguments() if not action.help] == []


def test_the_page_names_every_command_and_option() -> None:
    page = manual.manual()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## ampcheck {c}" for c in COMMANDS
    ]
    missing = [o for _, action in arguments() for o in action.option_strings if f"`{o}" not in page]
    assert missing == []


def test_options_that_commands_share_are_listed_once() -> None:
    page = manual.manual()
    assert page.count("| `--select RULES` |") == 1
    assert "As `ampcheck check`: `PATHS`, `--select RULES`, " in page


def help_of(*command: str) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
        main([*command, "--help"])
    return printed.getvalue().splitlines()


def test_options_stand_under_headings_in_help_and_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = help_of("check")
    headings = [line.removesuffix(":") for line in shown if line and line[0] != " " and line.endswith(":")]
    assert headings == ["positional arguments", *(h for h in ORDER if h != "replay")]
    page = manual.manual()
    assert [h for h in headings[1:-1] if f"| {h} | meaning |" not in page] == []
    at = {line.split()[0]: number for number, line in enumerate(shown) if line.startswith("  --")}
    assert shown.index("fixes:") < at["--fix"] < at["--unsafe-fixes"] < shown.index("known findings:")
    assert "options:" not in shown


def test_each_command_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a terminal of eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = help_of()
    start = shown.index("commands:") + 1
    assert [line.split()[0] for line in shown[start : shown.index("", start)]] == [*COMMANDS]


def test_an_alias_is_not_shown() -> None:
    assert "--output FILE" not in "\n".join(help_of("check"))
    assert "--output-file" not in "\n".join(help_of("audit"))


def test_the_command_writes_the_checkout_s_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manual, "__file__", str(tmp_path / "ampcheck" / "manual.py"))
    assert manual.main() == 2
    (tmp_path / "docs").mkdir()
    assert manual.main() == 0
    assert (tmp_path / "docs" / "cli.md").read_text("utf-8") == manual.manual()
    assert capsys.readouterr().out == "docs/cli.md\n"


# --- completion -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """The script of each shell."""
    found = {}
    for shell in SHELLS:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main(["completion", shell]) == 0
        found[shell] = printed.getvalue()
    return found


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ampcheck", "re"], {"replay"}),
        (["ampcheck", "check", "--since", "x", "--fo"], {"--force-exclude", "--format"}),
        (["ampcheck", "check", "--format", "gi"], {"github", "gitlab"}),
        (
            ["ampcheck", "explain", "AMP10"],
            {rule.code for rule in registry.built_in() if rule.code < "AMP110"},
        ),
        (["ampcheck", "replay", "tra"], {"train.py"}),
    ],
    ids=["command", "option", "choice", "rule", "file"],
)
def test_bash_completes(words: list[str], offered: set[str], scripts: dict[str, str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (tmp_path / "train.py").touch()
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _shtab_ampcheck ampcheck '{words[-1]}'\n"
    run = subprocess.run(
        [bash, "--norc", "-c", f'{scripts["bash"]}\n{ask}printf "%s\\n" "${{COMPREPLY[@]}}"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.strip() for line in run.stdout.splitlines()} == offered


@pytest.mark.parametrize("shell", sorted({*SHELLS} - {"bash"}))
def test_other_shells_are_given_every_command(shell: str, scripts: dict[str, str]) -> None:
    assert all(command in scripts[shell] for command in COMMANDS)


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "ksh"])
    assert capsys.readouterr().err.count("\n") == 1
