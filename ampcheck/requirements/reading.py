"""The files in which people declare versions, read as text.

pyproject.toml (PEP 621, PEP 735, Poetry), setup.cfg, setup.py, requirements*.txt, conda's environment.yml.  Nothing is
executed or installed, and what cannot be read declares nothing.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from ampcheck.requirements.declared import Declared

__all__ = ["declared_in"]

# https://pypi.org/project/torch/#history
RELEASES = tuple(
    Version(text)
    for text in (
        "1.0.0 1.0.1 1.1.0 1.2.0 1.3.0 1.3.1 1.4.0 1.5.0 1.5.1 1.6.0 1.7.0 1.7.1 1.8.0 1.8.1 1.9.0 1.9.1 "
        "1.10.0 1.10.1 1.10.2 1.11.0 1.12.0 1.12.1 1.13.0 1.13.1 2.0.0 2.0.1 2.1.0 2.1.1 2.1.2 2.2.0 2.2.1 2.2.2 "
        "2.3.0 2.3.1 2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.13.0"
    ).split()
)
NEWER = Version("999")  # than any: what is not bounded from above admits it
NAMES = frozenset({"torch", "pytorch"})


def declared_in(folder: Path) -> Iterator[Declared]:
    """What the files of a folder say about torch."""
    for pattern, read in READERS.items():
        for file in sorted(folder.glob(pattern)):
            with suppress(Exception):  # whatever is wrong with another tool's file is not ours to say
                for name, specifiers in read(file.read_text("utf-8")):
                    admitted = [v for v in (*RELEASES, NEWER) if v in specifiers]
                    if name.lower() in NAMES and admitted:
                        text = f"torch{specifiers}"
                        oldest = admitted[0].release if str(specifiers) else None
                        yield Declared(text, str(file), oldest, admitted[-1].release)


Found = Iterator[tuple[str, SpecifierSet]]
LOCAL = re.compile(r"\+[\w.]+")  # ``==1.12.1+cu113``


def _requirement(text: str) -> Found:
    """One requirement as pip reads it."""
    with suppress(InvalidRequirement):
        found = Requirement(LOCAL.sub("", text.split(" #")[0]).strip())
        yield found.name, found.specifier


def _requirements(text: str) -> Found:
    for line in text.splitlines():
        yield from _requirement(line.split(" --")[0])


def _pyproject(text: str) -> Found:
    data = tomllib.loads(text)
    project = data.get("project", {})
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    lists += data.get("dependency-groups", {}).values()
    for one in (item for listed in lists for item in listed if isinstance(item, str)):
        yield from _requirement(one)
    given = data.get("tool", {}).get("poetry", {}).get("dependencies", {}).get("torch")
    given = given.get("version") if isinstance(given, dict) else given
    if isinstance(given, str):
        with suppress(InvalidSpecifier):
            yield "torch", SpecifierSet(_poetry(given))


def _poetry(text: str) -> str:
    """Poetry's own ``^2.1`` and ``~2.1`` as others write them (https://python-poetry.org/docs/dependency-specification)."""
    caret = re.fullmatch(r"\^\s*(\d+)((?:\.\d+)*)", text.strip())
    if caret:
        return f">={caret[1]}{caret[2]},<{int(caret[1]) + 1}"
    tilde = re.fullmatch(r"~\s*(\d+)\.(\d+)((?:\.\d+)*)", text.strip())
    if tilde:
        return f">={tilde[1]}.{tilde[2]}{tilde[3]},<{tilde[1]}.{int(tilde[2]) + 1}"
    exact = re.fullmatch(r"[\d.]+", text.strip())
    return "" if text.strip() == "*" else f"=={text.strip()}" if exact else text


def _setup_cfg(text: str) -> Found:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    yield from _requirements(parser.get("options", "install_requires", fallback=""))


def _setup_py(text: str) -> Found:
    """The texts in it that are requirements, wherever they stand."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            yield from _requirement(node.value)


def _conda(text: str) -> Found:
    """``pytorch=1.13`` stands for any 1.13; the part after a second ``=`` is a build."""
    data: Any = yaml.safe_load(text)
    for item in data.get("dependencies", []) if isinstance(data, dict) else ():
        for one in item.get("pip", []) if isinstance(item, dict) else [item]:
            if isinstance(item, dict):
                yield from _requirement(str(one))
                continue
            single = re.fullmatch(r"([\w.-]+)\s*={1,2}\s*([\d.]+)(?:=.*)?", str(one).split("::")[-1].strip())
            yield from _requirement(f"{single[1]}=={single[2]}.*" if single else str(one))


READERS: dict[str, Callable[[str], Found]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "setup.py": _setup_py,
    "requirements*.txt": _requirements,
    "requirements/*.txt": _requirements,
    "environment*.y*ml": _conda,
}
