"""What a project asks of ampcheck: `[tool.ampcheck]` of `pyproject.toml`, or `ampcheck.toml`.

`Nearest` finds the settings of a file, `Settings` are what it says, `Options` are what it means for findings.
"""

from __future__ import annotations

from ampcheck.settings.choosing import Options
from ampcheck.settings.definition import Settings
from ampcheck.settings.errors import SettingsError
from ampcheck.settings.files import python_files
from ampcheck.settings.nearest import Nearest

__all__ = ["Nearest", "Options", "Settings", "SettingsError", "python_files"]
