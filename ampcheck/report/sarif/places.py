"""Places as SARIF spells them: URIs relative to the working directory, regions, cells as logical locations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ampcheck.events import Site
from ampcheck.notebook import Cells
from ampcheck.report.place import located
from ampcheck.report.region import Region, region, relative

__all__ = ["BASE", "artifact", "folder_uri", "location", "region_data"]

BASE = "%SRCROOT%"


def artifact(path: str) -> dict[str, str]:
    """A file: relative to the base where it lies below it, else by its whole URI."""
    inside = relative(path, os.getcwd())
    if os.path.isabs(inside):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(os.fsencode(inside)), "uriBaseId": BASE}


def folder_uri(path: str) -> str:
    """A folder's URI, which must end with a slash."""
    return Path(path).as_uri().rstrip("/") + "/"


def location(site: Site, notebooks: Mapping[str, Cells], text: str = "") -> dict[str, Any]:
    """A place, with a word on it; in a notebook also the cell."""
    found: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": artifact(site.path),
            "region": region_data(region(site, notebooks)),
        }
    }
    at = located(site, notebooks)
    if at.cell:
        name = f"cell {at.cell}"
        found["logicalLocations"] = [{"name": name, "fullyQualifiedName": f"{name}:{at.line}:{at.column}"}]
    if text:
        found["message"] = {"text": text}
    return found


def region_data(at: Region) -> dict[str, int]:
    """Lines, and columns where they are known; the end column is exclusive here as well."""
    if not at.column:
        return {"startLine": at.line, "endLine": at.end_line}
    return {
        "startLine": at.line,
        "startColumn": at.column,
        "endLine": at.end_line,
        "endColumn": at.end_column,
    }
