"""What is imported when, and under which name."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

COSTLY = {"torch", "rich", "pygls", "multiprocessing", "yaml", "pathspec"}


def python_files(checkout: Path) -> list[Path]:
    return [path for folder in ("ampcheck", "rules", "tests") for path in (checkout / folder).rglob("*.py")]


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def test_rules_are_never_imported_as_rules(checkout: Path) -> None:
    """`rules.x` would be a second copy of the class in `ampcheck.rules.x`."""
    guilty = [
        path
        for path in python_files(checkout)
        if any(name.split(".")[0] == "rules" for name in imported_names(path))
    ]
    assert guilty == []


def test_a_rule_reads_traces_and_nothing_else(checkout: Path) -> None:
    """It knows the vocabulary, and neither libcst nor torch nor what makes, runs or shows traces nor another rule."""
    machinery = {
        "check",
        "commands",
        "library",
        "lowering",
        "program",
        "registry",
        "replay",
        "report",
        "running",
    }
    for path in (checkout / "rules").glob("*.py"):
        for name in imported_names(path):
            top, *rest = name.split(".")
            assert top == "ampcheck" or top in sys.stdlib_module_names, f"{path} imports {name}"
            assert not {*rest} & {*machinery, "rules", "source"}, f"{path} imports {name}"


def modules_after(code: str, checkout: Path) -> set[str]:
    """The top-level modules that a fresh process holds after some code."""
    # Coverage of subprocesses would bring modules of its own.
    env = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        cwd=checkout,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in run.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize("module", ["ampcheck.cli", "ampcheck.commands.check", "ampcheck.check"])
def test_importing_the_linter_is_cheap(module: str, checkout: Path) -> None:
    assert not COSTLY & modules_after(f"import {module}", checkout)


def test_listing_rules_is_cheap(checkout: Path) -> None:
    code = "from ampcheck.cli import main; main(['rules'])"
    assert not (COSTLY | {"libcst"}) & modules_after(code, checkout)


def test_finding_fixes_needs_no_torch(checkout: Path) -> None:
    """Only the subprocess that proves them has it."""
    path = checkout / "fixtures" / "tour" / "plain_amp.py"
    code = (
        "from ampcheck.check import check_paths; from ampcheck.fixes import propose; "
        f"assert any(p.accepted for p in propose(check_paths([{str(path)!r}]).findings))"
    )
    assert "torch" not in modules_after(code, checkout)


def test_a_check_without_fixes_does_not_import_them(checkout: Path) -> None:
    code = "import ampcheck.commands.check, ampcheck.check; print('ampcheck.fixes' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "False\n"
