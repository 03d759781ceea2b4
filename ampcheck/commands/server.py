"""`ampcheck server`: the language server."""

from __future__ import annotations

from argparse import Namespace

from ampcheck.commands.exits import CLEAN, refuse

__all__ = ["run"]


def run(_: Namespace) -> int:
    """Serve an editor on standard input and output."""
    try:
        from ampcheck.server.application import serve
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        return refuse("the language server needs pygls 2: pip install 'ampcheck[lsp]'")
    serve()
    return CLEAN
