"""The review of a project on one page: what its training loops do, by line, for people who must sign it off."""

from ampcheck.audit.page import Audit, render

__all__ = ["Audit", "render"]
