"""Where the documentation stands on the web."""

from __future__ import annotations

from ampcheck import registry

__all__ = ["HOME", "rule_url"]

HOME = "https://github.com/ampcheck/ampcheck"


def rule_url(code: str) -> str:
    """The page of a built-in rule; "" for a plug-in's."""
    return next(
        (f"{HOME}/blob/main/docs/rules/{rule.name}.md" for rule in registry.built_in() if rule.code == code),
        "",
    )
