"""JUnit's XML, which most services show as test results: a suite a file, a failed test a finding.

There is no standard; this is the common part of what Jenkins, GitLab and pytest write and read.  A note is a test
that passed and has something to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from ampcheck.finding import Finding, Report
from ampcheck.report.line import Line, plain, printable
from ampcheck.report.message import message
from ampcheck.report.place import located
from ampcheck.report.region import region
from ampcheck.report.summary import count, unshown
from ampcheck.report.text import told

__all__ = ["lines"]


def lines(report: Report) -> Iterator[Line]:
    """The document, in ASCII."""
    root = ElementTree.Element("testsuites", name="ampcheck")
    for path, findings in groupby(report.findings, key=lambda finding: finding.site.path):
        suite = ElementTree.SubElement(root, "testsuite", name=printable(path))
        for finding in findings:
            _case(suite, finding, report)
    for failure in unshown(report):
        suite = ElementTree.SubElement(root, "testsuite", name=printable(failure.path))
        error = ElementTree.SubElement(_test(suite, "analysis", failure.path), "error", type="not analysed")
        error.set("message", printable(failure.message))
    if not len(root):
        suite = ElementTree.SubElement(root, "testsuite", name="ampcheck")
        _test(suite, f"{count(report.files, 'file')} analysed", "ampcheck")
    _add_up(root)
    ElementTree.indent(root)
    yield (('<?xml version="1.0" encoding="UTF-8"?>', ""),)
    for line in ElementTree.tostring(root, encoding="us-ascii").decode("ascii").splitlines():
        yield ((line, ""),)


def _test(suite: ElementTree.Element, name: str, path: str) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", name=name, classname=printable(path), file=printable(path), time="0"
    )


def _case(suite: ElementTree.Element, finding: Finding, report: Report) -> None:
    at = located(finding.site, report.notebooks)
    where = (f"cell {at.cell}:" if at.cell else "") + f"{at.line}:{at.column}"
    case = _test(suite, f"{finding.code} {finding.name} at {where}", finding.site.path)
    case.set("line", str(region(finding.site, report.notebooks).line))
    text = "\n".join(plain(line) for line in told(finding, report.notebooks))
    if finding.severity == "note":
        ElementTree.SubElement(case, "system-out").text = text
        return
    failure = ElementTree.SubElement(case, "failure", type=finding.severity)
    failure.set("message", printable(message(finding)))
    failure.text = text


def _add_up(root: ElementTree.Element) -> None:
    """How many tests, failures and errors there are, on each suite and on the whole."""
    for element in (root, *root):
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            element.set(name, str(sum(1 for _ in element.iter(tag))))
