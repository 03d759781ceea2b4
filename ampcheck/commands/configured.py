"""From the command line to the settings of a run."""

from __future__ import annotations

from argparse import Namespace

from ampcheck import registry
from ampcheck.settings import Nearest, Settings

__all__ = ["settings_of"]

# Options of the run as a whole: what is not given, the settings of the working directory say.
RUN_WIDE = {"device": "device", "fail_on": "fail_on", "baseline": "baseline_file"}


def settings_of(options: Namespace) -> Nearest:
    """Where the settings come from; options of the whole run that were not given are filled in.

    Raises `SettingsError` where the settings of the working directory are at fault, and `UnknownRuleError`.
    """
    known = registry.load()
    for selectors in (options.select, options.extend_select, options.ignore):
        registry.select(selectors, known)
    given = {key: True for key in ("possible", "force_exclude") if getattr(options, key)}
    nearest = Nearest(
        config=options.config,
        isolated=options.isolated,
        select=tuple(options.select),
        extend_select=tuple(options.extend_select),
        ignore=tuple(options.ignore),
        exclude=tuple(options.exclude),
        given=given | ({"respect_gitignore": False} if options.no_gitignore else {}),
    )
    if not nearest.options(".").select:
        raise registry.UnknownRuleError("no rule is left: what is ignored takes away all that is selected")
    _fill_in(options, nearest.of("."))
    return nearest


def _fill_in(options: Namespace, settings: Settings) -> None:
    for option, key in RUN_WIDE.items():
        if getattr(options, option, "") is None:
            setattr(options, option, getattr(settings, key))
