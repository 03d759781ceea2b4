"""What a match statement's pattern asks of its subject, as an ordinary test."""

from __future__ import annotations

import libcst as cst

from ampcheck import program as p
from ampcheck.lowering.expressions import Expressions

__all__ = ["test_of"]


def test_of(pattern: cst.MatchPattern, subject: p.Expr, lower: Expressions) -> p.Expr | None:
    """The test, or None for a pattern that always matches."""
    match pattern:
        case cst.MatchAs(pattern=None):
            return None
        case cst.MatchAs(pattern=inner) if inner is not None:
            return test_of(inner, subject, lower)
        case cst.MatchValue(value=value):
            return p.Compare(lower.site(value), "==", subject, lower.expr(value))
        case cst.MatchSingleton(value=value):
            return p.Compare(lower.site(value), "is", subject, lower.expr(value))
        case cst.MatchOr(patterns=elements):
            result: p.Expr | None = None
            for element in elements:
                test = test_of(element.pattern, subject, lower)
                if test is None:
                    return None
                result = test if result is None else p.BoolOp(result.site, "or", result, test)
            return result
        case _:
            return p.Opaque(lower.site(pattern), (subject,))
