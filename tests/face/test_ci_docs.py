"""The files that `docs/` gives for CI services and pre-commit, against the schemas of those who read them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from ampcheck.cli import parser


def block(checkout: Path, page: str, heading: str = "") -> str:
    """The first block of YAML below a heading."""
    text = (checkout / "docs" / page).read_text("utf-8")
    return re.split(r"^```(?:yaml)?\n", text[text.index(heading) :], flags=re.MULTILINE)[1]


@pytest.mark.parametrize(
    ("heading", "schema"), [("## GitHub", "vendor.github-workflows"), ("## GitLab", "vendor.gitlab-ci")]
)
def test_the_services_take_it(heading: str, schema: str, checkout: Path, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    good, bad = tmp_path / "good.yml", tmp_path / "bad.yml"
    good.write_text(block(checkout, "ci.md", heading))
    bad.write_text(good.read_text().replace("ampcheck:\n", "ampcheck:\n  steps: 1\n  script: {}\n", 1))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    run = subprocess.run([*command, str(good)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert subprocess.run([*command, str(bad)], capture_output=True, check=False).returncode == 1


def test_pre_commit_takes_its_configuration_and_the_hooks(checkout: Path, tmp_path: Path) -> None:
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    config = tmp_path / "config.yaml"
    config.write_text(block(checkout, "pre-commit.md"))
    for command, file in (("config", config), ("manifest", checkout / ".pre-commit-hooks.yaml")):
        run = [sys.executable, "-m", "pre_commit", f"validate-{command}", str(file)]
        subprocess.run(run, check=True, capture_output=True)


def test_the_hooks_of_the_page_are_those_that_there_are(checkout: Path) -> None:
    page = (checkout / "docs" / "pre-commit.md").read_text("utf-8")
    hooks = yaml.safe_load((checkout / ".pre-commit-hooks.yaml").read_text("utf-8"))
    listed = dict(re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    assert listed == {hook["id"]: hook["entry"].replace(" --force-exclude", "") for hook in hooks}
    assert {hook["language"] for hook in hooks} == {"system"}


@pytest.mark.parametrize("heading", ["## GitHub", "## GitLab", "## With tensors"])
def test_the_commands_are_ampcheck_s(heading: str, checkout: Path) -> None:
    text = (checkout / "docs" / "ci.md").read_text("utf-8")
    commands = re.findall(r"^.*?(ampcheck (?:check|replay) .*)$", text[text.index(heading) :], re.MULTILINE)
    assert commands
    for command in commands:
        plain = re.sub(r"\$\{\w+:\+(.*)\}", r"\1", command)
        parser().parse_args(shlex.split(plain)[1:])
