"""Work in progress, shown by clients that can."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

__all__ = ["WorkDone"]


class WorkDone:
    """One piece of work at a time."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.token = ""

    async def report(self, file: str | None) -> None:
        """Say that a file is being checked, or with None that the work is done."""
        window = self.server.client_capabilities.window
        if window is None or not window.work_done_progress:
            return
        progress = self.server.work_done_progress
        if file is None:
            if self.token:
                progress.end(self.token, lsp.WorkDoneProgressEnd())
                self.token = ""
            return
        token = str(uuid4())
        await progress.create_async(token)
        progress.begin(token, lsp.WorkDoneProgressBegin("ampcheck", message=f"checking {file}"))
        self.token = token
