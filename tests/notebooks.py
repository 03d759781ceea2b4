"""Notebooks for tests, made of the texts of their cells."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["notebook"]


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> bytes:
    """A notebook of code cells (a dictionary stands for itself), as Jupyter stores it."""
    return json.dumps(
        {
            "cells": [cell if isinstance(cell, dict) else _code(cell) for cell in cells],
            "metadata": metadata,
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ).encode()


def _code(text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
