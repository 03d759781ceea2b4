"""Rules are found without registering them anywhere, and one that cannot be used is refused by file and line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ampcheck import registry

GOOD = '''
from ampcheck.rule import Rule

class Sample(Rule):
    """A sample."""

    code = "ZZZ101"
    name = "sample-fault"
    severity = "note"

    def check(self, trace):
        yield from ()
'''

Plugin = Callable[..., None]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    """Install a distribution with modules and one entry point of the group `ampcheck.rules`."""
    names: list[str] = []

    def install(value: str, **modules: str) -> None:
        for name, text in modules.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        info = tmp_path / "sample_pack-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-pack\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[ampcheck.rules]\nsample = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        names.extend(name.split("__")[0] for name in modules)
        registry.load.cache_clear()

    yield install
    for name in [module for module in sys.modules if module.split(".")[0] in names]:
        del sys.modules[name]
    registry.load.cache_clear()


def test_built_in_rules_come_by_code_each_from_the_file_of_its_name() -> None:
    rules = registry.built_in()
    assert [rule.code for rule in rules] == sorted(rule.code for rule in rules)
    assert [type(rule).__module__ for rule in rules] == [
        f"ampcheck.rules.{rule.name.replace('-', '_')}" for rule in rules
    ]


def test_every_file_in_rules_is_a_rule(checkout: Path) -> None:
    stems = {path.stem for path in (checkout / "rules").glob("*.py")}
    assert stems == {rule.name.replace("-", "_") for rule in registry.built_in()}
    assert not (checkout / "rules" / "__init__.py").exists()


@pytest.mark.parametrize("value", ["zz_pack", "zz_pack:Sample"])
def test_a_plugin_offers_a_module_or_a_class(value: str, plugin: Plugin) -> None:
    plugin(value, zz_pack=GOOD)
    assert [rule.code for rule in registry.load()][-1] == "ZZZ101"


def test_a_plugin_offers_a_package(plugin: Plugin) -> None:
    other = GOOD.replace("ZZZ101", "ZZZ102").replace("sample-fault", "other-fault")
    plugin("zz_pack", zz_pack____init__="", zz_pack__one=GOOD, zz_pack__two=other, zz_pack___private="1 / 0")
    assert [rule.code for rule in registry.load()][-2:] == ["ZZZ101", "ZZZ102"]


def test_a_plugin_with_no_rule_is_refused(plugin: Plugin) -> None:
    plugin("zz_pack", zz_pack="import os\n")
    with pytest.raises(registry.RegistryError, match=r"zz_pack\.py:1: the plug-in 'sample' defines no rule"):
        registry.load()


def test_a_plugin_that_is_no_rule_is_refused(plugin: Plugin) -> None:
    plugin("zz_pack:Other", zz_pack="\n\nclass Other:\n    pass\n")
    with pytest.raises(registry.RegistryError, match=r"zz_pack\.py:3: the plug-in 'sample' offers `Other`"):
        registry.load()


def test_a_plugin_that_lacks_its_class_is_refused(plugin: Plugin) -> None:
    plugin("zz_pack:Missing", zz_pack=GOOD)
    with pytest.raises(registry.RegistryError, match=r"zz_pack\.py:1: .* offers `Missing`, which is not"):
        registry.load()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = 1 / 0\n", r"zz_pack\.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\ny = (\n", r"zz_pack\.py:2: .*was never closed"),
        ("\nimport no_such_module_here\n", r"zz_pack\.py:2: ModuleNotFoundError: No module named"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_refused(text: str, said: str, plugin: Plugin) -> None:
    plugin("zz_pack", zz_pack=text)
    with pytest.raises(registry.RegistryError, match=said):
        registry.load()


def test_a_plugin_that_is_not_there_is_refused(plugin: Plugin) -> None:
    plugin("zz_absent")
    with pytest.raises(registry.RegistryError, match="module zz_absent: ModuleNotFoundError"):
        registry.load()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('    code = "ZZZ101"\n', "", "Sample has no code"),
        ('code = "ZZZ101"', 'code = "zzz1"', "has the code 'zzz1'; codes read like AMP101"),
        ("sample-fault", "Sample_Fault", "has the name 'Sample_Fault'; names read like clip-before-unscale"),
        ('"note"', '"fatal"', "has the severity 'fatal'; it is one of error, warning, note"),
        ('severity = "note"', 'severity = "note"; oracle = ("colour",)', "names the oracle 'colour'"),
        ('    """A sample."""\n', "", "has no docstring"),
        ("def check", "def inspect", "does not define `check`"),
    ],
)
def test_a_rule_that_is_incomplete_is_refused(old: str, new: str, said: str, plugin: Plugin) -> None:
    assert old in GOOD
    plugin("zz_pack", zz_pack=GOOD.replace(old, new))
    with pytest.raises(registry.RegistryError, match=rf"zz_pack\.py:4: .*{said}"):
        registry.load()


@pytest.mark.parametrize("field", ["code", "name"])
def test_a_taken_code_or_name_is_refused_naming_both_files(field: str, plugin: Plugin) -> None:
    rule = registry.built_in()[0]
    taken = getattr(rule, field)
    plugin("zz_pack", zz_pack=GOOD.replace("ZZZ101" if field == "code" else "sample-fault", taken))
    stem = rule.name.replace("-", "_")
    with pytest.raises(registry.RegistryError, match=rf"zz_pack\.py:4: {taken} is taken by .*{stem}\.py:\d+"):
        registry.load()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AMP1O1", "unknown rule 'AMP1O1': did you mean AMP"),
        ("clip-before-unscaled", "did you mean clip-before-unscale"),
        ("qqqq", "unknown rule 'qqqq': `ampcheck rules` lists them all"),
    ],
)
def test_an_unknown_rule_brings_close_ones_to_mind(text: str, said: str) -> None:
    with pytest.raises(registry.UnknownRuleError, match=said):
        registry.find(text, registry.built_in())
    with pytest.raises(registry.UnknownRuleError, match=said):
        registry.select([text], registry.built_in())


def test_a_prefix_where_one_rule_is_asked_for() -> None:
    with pytest.raises(
        registry.UnknownRuleError, match="'amp1' stands for several rules: `ampcheck rules` lists"
    ):
        registry.find("amp1", registry.built_in())


def test_a_rule_is_found_by_code_or_name_in_any_case() -> None:
    rule = registry.built_in()[0]
    assert registry.find(rule.code.lower(), registry.built_in()) is rule
    assert registry.find(rule.name.upper(), registry.built_in()) is rule
