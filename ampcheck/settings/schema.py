"""The JSON schema of the settings, made from their one definition: `python -m ampcheck.settings.schema` writes it.

Editors complete and check `ampcheck.toml` by it; `docs/configuration.md` says how.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ampcheck.settings.definition import Key, keys

__all__ = ["PLACE", "schema", "text"]

PLACE = "docs/settings.schema.json"
DRAFT = "http://json-schema.org/draft-07/schema#"  # what editors' TOML plug-ins understand

STRINGS = {"type": "array", "items": {"type": "string", "minLength": 1}}
NAMES = {
    "type": "array",
    "items": {"type": "string", "pattern": r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"},
}


def schema() -> dict[str, Any]:
    """The schema of an `ampcheck.toml`, and of the table `tool.ampcheck` in a `pyproject.toml`."""
    return {
        "$schema": DRAFT,
        "title": "ampcheck",
        "description": "Settings of ampcheck: ampcheck.toml, or [tool.ampcheck] in pyproject.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _property(key) for key in keys()},
    }


def _property(key: Key) -> dict[str, Any]:
    about = {"description": key.about}
    default: Any = list(key.default) if isinstance(key.default, tuple) else key.default
    match key.kind:
        case "rules" | "patterns" | "folders":
            return about | STRINGS | {"default": default}
        case "names":
            return about | NAMES | {"default": default}
        case "file":
            return about | {"type": "string", "minLength": 1}
        case "flag":
            return about | {"type": "boolean", "default": default}
        case "choice":
            return about | {"enum": list(key.choices), "default": default}
        case "rules by pattern":
            return about | {"type": "object", "additionalProperties": STRINGS, "default": {}}
        case "severity by rule":
            return about | {
                "type": "object",
                "additionalProperties": {"enum": list(key.choices)},
                "default": {},
            }


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    Path(PLACE).write_text(text(), "utf-8")
    sys.stdout.write(f"{PLACE}\n")
