"""What comes out of a network or a loss function whose own code said how it normalises."""

from __future__ import annotations

from dataclasses import replace

from ampcheck.events import Unit
from ampcheck.returns import Reduction, Returns
from ampcheck.running import values as v
from ampcheck.running.describing import text_of

__all__ = ["given_back"]


def given_back(result: v.Value, returns: Returns) -> v.Value:
    """The result of a call with what is known of its parts."""
    if not isinstance(result, v.Unknown) or result.flow is None or not returns.tells:
        return result
    flow = result.flow

    def part(text: str, how: Reduction) -> v.Unknown:
        if how == "divided":
            return v.Unknown(text, True, flow.times(Unit(other=frozenset({"a divisor of its own"}))))
        return v.Unknown(text, True, replace(flow, reduction=how))

    if returns.items:
        named = enumerate(returns.items)
        return v.Seq("tuple", [part(f"{result.text}[{index}]", how) for index, how in named])
    if returns.fields:
        for name, how in returns.fields.items():
            result.attributes[name] = part(f"{result.text}.{name}", how)
            result.attributes[f"[{text_of(v.Const(name))}]"] = result.attributes[name]
        return result
    return part(result.text, returns.whole)
