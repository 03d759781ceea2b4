"""The settings: each key once, with its kind, its default and what it does.

The reader, the schema (`docs/settings.schema.json`) and `--show-settings` are made from this one class.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

from ampcheck.own_names import OwnNames
from ampcheck.rule import Severity

__all__ = ["Device", "FailOn", "Key", "Kind", "Settings", "keys"]

Device = Literal["auto", "cpu", "cuda"]
FailOn = Literal["error", "warning", "note", "never"]
Kind = Literal[
    "rules",  # codes, names or prefixes of rules
    "patterns",  # as in a .gitignore, from the folder of the settings file
    "folders",  # from the folder of the settings file
    "names",  # of Python: ``LossScaler``, ``company.amp.LossScaler``
    "file",  # from the folder of the settings file
    "flag",
    "choice",
    "rules by pattern",
    "severity by rule",
]


class Key(NamedTuple):
    """One key of the file: ``per-file-ignores``; its `field` of `Settings` is spelled with underscores."""

    name: str
    kind: Kind
    default: Any
    about: str
    example: str
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The name in Python."""
        return self.name.replace("-", "_")


def _about(kind: Kind, about: str, example: str, choices: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"kind": kind, "about": about, "example": example, "choices": choices}


@dataclass(frozen=True, slots=True)
class Settings:
    """What one file says, the defaults for the rest.

    `path` is the file, "" where there is none; `root` its folder, which patterns and folders are relative to.
    """

    path: str = ""
    root: str = ""
    select: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "rules", "The rules to apply; empty: all but those that are off by default.", '["AMP1", "AMP2"]'
        ),
    )
    extend_select: tuple[str, ...] = field(
        default=(), metadata=_about("rules", "Rules to apply besides those of `select`.", '["AMP318"]')
    )
    ignore: tuple[str, ...] = field(
        default=(), metadata=_about("rules", "Rules not to apply.", '["deprecated-amp-api"]')
    )
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = field(
        default=(),
        metadata=_about(
            "rules by pattern",
            "Rules not to apply to some files, by pattern.",
            '{ "examples/**" = ["AMP3"] }',
        ),
    )
    severity: tuple[tuple[str, Severity], ...] = field(
        default=(),
        metadata=_about(
            "severity by rule",
            "Another severity for some rules.",
            '{ missing-no-sync = "note" }',
            get_args(Severity),
        ),
    )
    possible: bool = field(
        default=False, metadata=_about("flag", "Also show findings that only may be a fault.", "true")
    )
    fail_on: FailOn = field(
        default="warning",
        metadata=_about(
            "choice", "The least severity that makes the exit code 1.", '"error"', get_args(FailOn)
        ),
    )
    baseline: str = field(
        default="",
        metadata=_about(
            "file", "The baseline: a file of findings that are known.", '"ampcheck-baseline.json"'
        ),
    )
    exclude: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "patterns",
            "Files and folders to pass over, as in a `.gitignore`.",
            '["third_party/", "*_old.py"]',
        ),
    )
    respect_gitignore: bool = field(
        default=True, metadata=_about("flag", "Pass over what git ignores.", "false")
    )
    force_exclude: bool = field(
        default=False,
        metadata=_about(
            "flag", "Pass over excluded files even where they are named on the command line.", "true"
        ),
    )
    roots: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "folders", "Folders in which the project's own imports are looked for first.", '["lib/python"]'
        ),
    )
    scalers: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "names",
            "Classes or functions to be taken for torch's `GradScaler`.",
            '["company.amp.LossScaler"]',
        ),
    )
    optimizers: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "names", "Classes or functions to be taken for torch's optimizers.", '["company.optim.Shampoo"]'
        ),
    )
    accumulators: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "names", "Classes to be taken for Accelerate's `Accelerator`.", '["company.launch.Engine"]'
        ),
    )
    windows: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "names", "Variables and options that hold the length of the window, K.", '["virtual_batches"]'
        ),
    )
    device: Device = field(
        default="auto", metadata=_about("choice", "Where `ampcheck replay` runs.", '"cpu"', get_args(Device))
    )

    @property
    def baseline_file(self) -> str:
        """The baseline's path from the working directory, "" where there is none."""
        return os.path.relpath(os.path.join(self.root, self.baseline)) if self.baseline else ""

    @property
    def names(self) -> OwnNames:
        """What the project calls its own wrappers."""
        return OwnNames(self.scalers, self.optimizers, self.accumulators, self.windows)

    @property
    def search_folders(self) -> tuple[str, ...]:
        """The `roots`, as absolute paths."""
        return tuple(os.path.normpath(os.path.join(self.root, root)) for root in self.roots)


def keys() -> tuple[Key, ...]:
    """All keys, in the order of the documentation."""
    return tuple(
        Key(part.name.replace("_", "-"), default=part.default, **part.metadata)
        for part in fields(Settings)
        if part.metadata
    )
