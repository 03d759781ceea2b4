"""SARIF 2.1.0: one run with its rules, results and what could not be analysed.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/ is the standard; what services show of it is in `docs/formats.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ampcheck import __version__
from ampcheck.finding import Failure, Report
from ampcheck.fingerprint import fingerprints
from ampcheck.report.as_json import indented
from ampcheck.report.line import Line
from ampcheck.report.links import HOME
from ampcheck.report.sarif.places import BASE, artifact, folder_uri
from ampcheck.report.sarif.results import result
from ampcheck.report.sarif.rules import descriptors

__all__ = ["lines", "log"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def lines(report: Report) -> Iterator[Line]:
    """The log, in ASCII, over several lines."""
    yield from indented(log(report))


def log(report: Report) -> dict[str, Any]:
    """The log as plain data; paths below the working directory are relative to it."""
    rules = descriptors(report.findings)
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ampcheck",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "informationUri": HOME,
                        "rules": rules,
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {BASE: {"uri": folder_uri(os.getcwd())}},
                "invocations": [
                    {
                        "executionSuccessful": not report.failures,
                        "toolExecutionNotifications": [_notification(f) for f in report.failures],
                    }
                ],
                "results": [
                    result(finding, report.notebooks, index[finding.code], digest)
                    for finding, digest in zip(report.findings, fingerprints(report), strict=True)
                ],
            }
        ],
    }


def _notification(failure: Failure) -> dict[str, Any]:
    """A path that was not analysed."""
    return {
        "level": "error",
        "message": {"text": f"{failure.path}: {failure.message}"},
        "locations": [{"physicalLocation": {"artifactLocation": artifact(failure.path)}}],
    }
