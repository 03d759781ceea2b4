"""The rules, one file each, as submodules: `ampcheck.rules.clip_before_unscale`.

A wheel holds them right here.  In a checkout they lie in the top-level folder `rules/`, which then becomes
part of this package.  Import them under this name only: `rules.clip_before_unscale` would be a second copy of
the class.
"""

from pathlib import Path

__all__: list[str] = []

_checkout = Path(__file__).resolve().parents[2]
# Installed, the folder above is site-packages, where `rules` may be a stranger's package.
if (_checkout / "pyproject.toml").is_file() and (_checkout / "rules").is_dir():
    __path__.append(str(_checkout / "rules"))
