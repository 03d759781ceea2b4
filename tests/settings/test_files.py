"""Which files are checked: what is named, what excludes them, and what git says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ampcheck.cli import main
from ampcheck.settings import Nearest, python_files
from ampcheck.settings.ignored import Ignored

TREE = (
    "a.py",
    "b_old.py",
    "build/out.py",
    "src/c.py",
    "src/d_old.py",
    "third_party/e.py",
    "third_party/ours/f.py",
    "tools/third_party/g.py",
    "notes.ipynb",
    "readme.txt",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left(settings: str = "", *paths: str, nearest: Nearest | None = None) -> set[str]:
    """What remains of the tree, as the difference to the files that nothing excludes."""
    Path("ampcheck.toml").write_text(settings)
    return {path.replace(os.sep, "/") for path in python_files(paths or ["."], nearest or Nearest())}


EVERYTHING = set(TREE) - {"build/out.py", "readme.txt"}


def without(*gone: str) -> set[str]:
    assert set(gone) <= EVERYTHING
    return EVERYTHING - set(gone)


@pytest.mark.parametrize(
    ("exclude", "rest"),
    [
        ("[]", without()),
        ('["*_old.py"]', without("b_old.py", "src/d_old.py")),
        ('["*_old.py", "!b_old.py"]', without("src/d_old.py")),
        ('["/*_old.py"]', without("b_old.py")),
        ('["third_party/"]', without("third_party/e.py", "third_party/ours/f.py", "tools/third_party/g.py")),
        ('["/third_party"]', without("third_party/e.py", "third_party/ours/f.py")),
        ('["src/c.py", "*.ipynb"]', without("src/c.py", "notes.ipynb")),
    ],
)
def test_patterns(tree: Path, exclude: str, rest: set[str]) -> None:
    assert left(f"exclude = {exclude}") == rest


def test_patterns_begin_at_the_settings_file(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left('exclude = ["/src/c.py"]')
    monkeypatch.chdir(tree / "src")
    assert set(python_files(["."], Nearest())) == {"d_old.py"}
    assert set(python_files(["."], Nearest(exclude=("/d_old.py",)))) == set()


def test_the_nearest_file_excludes(tree: Path) -> None:
    (tree / "src" / "ampcheck.toml").write_text("")
    assert left('exclude = ["*_old.py"]') == without("b_old.py")


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("b_old.py", {"b_old.py"}),
        ("third_party", {"third_party/e.py", "third_party/ours/f.py"}),
        ("third_party/e.py", {"third_party/e.py"}),
        ("build", {"build/out.py"}),
        ("src", {"src/c.py"}),
    ],
)
def test_what_is_named_is_checked_unless_forced(tree: Path, path: str, rest: set[str]) -> None:
    settings = 'exclude = ["*_old.py", "third_party/"]'
    assert left(settings, path) == rest
    assert left(f"{settings}\nforce-exclude = true", path) == rest & {"src/c.py"}
    assert left(settings, path, nearest=Nearest(given={"force_exclude": True})) == rest & {"src/c.py"}


def test_the_command_lists_them(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--show-files", "--exclude", "third_party/,*_old.py"]) == 0
    assert capsys.readouterr().out.splitlines() == ["a.py", "notes.ipynb", "src/c.py"]


def test_the_command_shows_the_settings_as_a_file_could_hold_them(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "ampcheck.toml").write_text('ignore = ["AMP3"]\nseverity = { AMP101 = "note" }\n')
    assert main(["check", "--show-settings", "src", "a.py", "--ignore", "AMP4"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# ampcheck.toml;")
    assert shown.count("# ampcheck.toml;") == 1
    (tree / "again").mkdir()
    (tree / "again" / "ampcheck.toml").write_text(shown)
    again = Nearest().of("again")
    assert (again.ignore, again.severity) == (("AMP3", "AMP4"), (("AMP101", "note"),))


# --- git ----------------------------------------------------------------------------------------------------------

IGNORE = "*_old.py\n!b_old.py\n/third_party/*\n!/third_party/ours/\n# no pattern\nsrc/c.py \n\\!x.py\n[\n"


@pytest.fixture
def repository(tree: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q"], check=True)
    (tree / ".gitignore").write_text(IGNORE)
    (tree / "tools" / ".gitignore").write_text("*\n!g.py\n")
    (tree / ".git" / "info" / "exclude").write_text("notes.ipynb\na.py\n")
    return tree


def test_what_git_ignores_is_passed_over(repository: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    wanted = {name for name in listed if name in EVERYTHING}
    assert wanted == {"b_old.py", "third_party/ours/f.py"}
    assert left() == wanted
    assert left("respect-gitignore = false") == EVERYTHING


def test_each_path_is_judged_as_git_judges_it(repository: Path) -> None:
    ignored = Ignored()
    for name in TREE:
        run = subprocess.run(["git", "check-ignore", "-q", name], check=False)
        own = ignored(name, is_folder=False) or ignored.anywhere(os.path.dirname(os.path.abspath(name)))
        assert own == (run.returncode == 0), name


def test_an_ignored_folder_that_is_named_is_checked(repository: Path) -> None:
    (repository / ".gitignore").write_text("third_party/\n")
    assert left("", "third_party") == {"third_party/e.py", "third_party/ours/f.py"}
    assert left("", "third_party/ours") == {"third_party/ours/f.py"}


def test_a_gitignore_outside_of_a_repository_means_nothing(tree: Path) -> None:
    (tree / ".gitignore").write_text("*.py\n")
    assert left() == EVERYTHING


def test_no_file_left_is_no_mistake(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--exclude", "*"]) == 0
    assert capsys.readouterr().out == "No file to analyse\n"
