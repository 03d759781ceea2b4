"""The same switches in configuration files: JSON and YAML, by line, whoever reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from ampcheck.audit.switches import Switch, SwitchKind, kind_of
from ampcheck.events import Site
from ampcheck.imports import SKIPPED
from ampcheck.source import Unreadable, read_bytes

__all__ = ["configuration_files", "configured"]

ENDINGS = (".json", ".yaml", ".yml")
LARGEST = 2**18
WORDS = re.compile(rb"fp16|bf16|float16|amp\b|precision|loss_scale|half", re.IGNORECASE)
SECTIONS = ("fp16", "bf16", "bfloat16", "amp")
OF_SECTION = (
    "enabled",
    "loss_scale",
    "initial_scale_power",
    "loss_scale_window",
    "min_loss_scale",
    "opt_level",
)
MOST = 400
"""How many of a file's scalars are looked at: a data set in JSON is no configuration."""


def configuration_files(paths: Iterable[str]) -> Iterator[str]:
    """The files under the directories given, and beside the files given, that may configure a training."""
    seen: set[str] = set()
    for path in paths:
        for file in sorted(_under(path)):
            if file not in seen:
                seen.add(file)
                yield file


def _under(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        folder = os.path.dirname(path)
        names = os.listdir(folder or ".") if os.path.isfile(path) else []
        yield from (os.path.join(folder, name) for name in names if name.endswith(ENDINGS))
        return
    for folder, folders, names in os.walk(path):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.startswith(".")]
        yield from (os.path.normpath(os.path.join(folder, name)) for name in names if name.endswith(ENDINGS))


def configured(path: str) -> tuple[Switch, ...]:
    """The switches of one file; none where it cannot be read, which the check says where it matters."""
    try:
        data = read_bytes(path)
    except Unreadable:
        return ()
    if len(data) > LARGEST or not WORDS.search(data):
        return ()
    try:
        text = data.decode("utf-8-sig").replace("\t", " ")  # JSON may be indented by tabs, YAML may not
        return tuple(_scalars(path, text))
    except (UnicodeDecodeError, RecursionError, ValueError):
        return ()


def _scalars(path: str, text: str) -> Iterator[Switch]:
    import yaml  # type: ignore[import-untyped]  # here, since few projects need it

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    pending: list[tuple[tuple[str, ...], yaml.Node]] = [((), root)] if root is not None else []
    looked_at = 0
    while pending and looked_at < MOST:
        keys, node = pending.pop(0)
        if isinstance(node, yaml.MappingNode):
            pending += [((*keys, str(key.value)), value) for key, value in node.value]
        elif isinstance(node, yaml.ScalarNode):
            looked_at += 1
            kind = _kind(keys)
            if kind:
                line, column = node.start_mark.line + 1, node.start_mark.column + 1
                site = Site(path, line, column, line, column + len(str(node.value)))
                yield Switch(site, kind, f"{'.'.join(keys)}: {node.value}", os.path.basename(path))


def _kind(keys: tuple[str, ...]) -> SwitchKind | None:
    if not keys:
        return None
    section = next((key for key in reversed(keys[:-1]) if key in SECTIONS), None)
    if section is not None:
        scale = "scale" in keys[-1]
        return ("loss scale" if scale else kind_of(section)) if keys[-1] in OF_SECTION else None
    return kind_of(keys[-1])
