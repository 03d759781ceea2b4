"""One layout, four ways to run it: wheel, sdist, editable install and bare checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PARTS = (
    "ampcheck",
    "rules",
    "tests",
    "fixtures",
    "docs",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".gitignore",
)
LIST = (
    "import ampcheck.rules, ampcheck.registry as r\n"
    "print(*sorted(type(rule).__module__ for rule in r.load()), ampcheck.__file__)"
)


@pytest.fixture(scope="session")
def source(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, so that building leaves nothing in it."""
    copy = tmp_path_factory.mktemp("source")
    for part in PARTS:
        if (checkout / part).is_dir():
            shutil.copytree(checkout / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(checkout / part, copy / part)
    return copy


def build(source: Path, hook: str, into: Path) -> Path:
    """Call one hook of the build backend, as pip does."""
    code = f"import hatchling.build as b; print(b.{hook}({str(into)!r}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=True)
    return into / run.stdout.split()[-1]


def modules(expected: Path) -> list[str]:
    return sorted(f"ampcheck.rules.{path.stem}" for path in (expected / "rules").glob("*.py"))


def listed(site: Path, tmp_path: Path) -> tuple[list[str], Path]:
    """The rules' modules and ampcheck's place, as a process sees them whose site-packages is `site`."""
    code = (
        f"import site; site.addsitedir({str(site)!r})\nimport sys; sys.path.insert(0, sys.path.pop())\n{LIST}"
    )
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    *names, place = run.stdout.split()
    return names, Path(place)


@pytest.mark.parametrize("stranger", [False, True], ids=["alone", "beside a stranger's `rules`"])
def test_a_wheel_holds_the_rules(source: Path, tmp_path: Path, stranger: bool) -> None:
    wheel = build(source, "build_wheel", tmp_path)
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "ampcheck",
            f"{wheel.stem[:14]}.dist-info",
        }
        archive.extractall(site)
    if stranger:
        (site / "rules").mkdir()
        (site / "rules" / "other.py").write_text("raise RuntimeError('not ours')")
    names, place = listed(site, tmp_path)
    assert names == modules(source)
    assert place.is_relative_to(site)


def test_a_wheel_made_from_an_sdist_is_the_same(source: Path, tmp_path: Path) -> None:
    wheel = build(source, "build_wheel", tmp_path)
    with tarfile.open(build(source, "build_sdist", tmp_path)) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    (tmp_path / "again").mkdir()
    again = build(unpacked, "build_wheel", tmp_path / "again")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_an_editable_install_reads_the_checkout(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(build(source, "build_editable", tmp_path)) as archive:
        archive.extractall(site)
    names, place = listed(site, tmp_path)
    assert names == modules(source)
    assert place == source / "ampcheck" / "__init__.py"


def test_a_bare_checkout_runs(source: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LIST], cwd=source, capture_output=True, text=True, check=True)
    assert run.stdout.split()[:-1] == modules(source)
