"""The schema and the page of the settings say what the reader does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ampcheck.settings import SettingsError
from ampcheck.settings.definition import keys
from ampcheck.settings.reading import read
from ampcheck.settings.schema import PLACE, text
from tests.settings.test_reading import EVERYTHING

SECTIONLESS = EVERYTHING.split("[tool.ampcheck]\n")[1].replace("[tool.ampcheck.", "[")


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real check-jsonschema, which no test needs the network for."""
    tool = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("check-jsonschema is not installed: pip install -e '.[dev]'")
    return subprocess.run([tool, *arguments], capture_output=True, text=True)


def test_the_schema_is_up_to_date(checkout: Path) -> None:
    assert (checkout / PLACE).read_text("utf-8") == text(), "run `python -m ampcheck.settings.schema`"


def test_it_is_a_schema(checkout: Path) -> None:
    run = checked("--check-metaschema", str(checkout / PLACE))
    assert run.returncode == 0, run.stdout


def test_what_is_right_for_the_reader_is_right_for_the_schema(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "ampcheck.toml"
    path.write_text(SECTIONLESS)
    read(str(path))
    run = checked("--schemafile", str(checkout / PLACE), str(path))
    assert run.returncode == 0, run.stdout


def test_what_is_wrong_for_the_reader_is_wrong_for_the_schema(checkout: Path, tmp_path: Path) -> None:
    wrong = ["selct = []", 'select = "AMP1"', "possible = 1", 'fail-on = "fatal"', 'scalers = ["a-b"]']
    wrong += ['baseline = ""', 'severity = { AMP1 = "bad" }', 'per-file-ignores = { "a" = "AMP1" }']
    paths = []
    for number, line in enumerate(wrong):
        path = tmp_path / f"{number}.toml"
        path.write_text(line)
        with pytest.raises(SettingsError):
            read(str(path))
        paths.append(str(path))
    run = checked("--schemafile", str(checkout / PLACE), "--output-format", "json", *paths)
    assert {error["filename"] for error in json.loads(run.stdout)["errors"]} == set(paths)


def test_the_page_has_a_row_for_each_key(checkout: Path) -> None:
    page = (checkout / "docs" / "configuration.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| `(.+)` \| (.+) \|$", page, re.MULTILINE)
    tables = {"rules by pattern", "severity by rule"}
    shown = [
        (
            key.name,
            "{}" if key.kind in tables else "[]" if key.default == () else json.dumps(key.default),
            key.about,
        )
        for key in keys()
    ]
    assert rows == shown


def test_the_examples_are_settings(checkout: Path, tmp_path: Path) -> None:
    page = (checkout / "docs" / "configuration.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    blocks += [f"[tool.ampcheck]\n{key.name} = {key.example}\n" for key in keys()]
    assert len(blocks) > len(keys())
    for number, block in enumerate(blocks):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / str(number) / "pyproject.toml"
        path.write_text(block)
        read(str(path))
