"""From a file's text to the core program: pick with `ast`, read with libcst, slice."""

from __future__ import annotations

import libcst as cst

from ampcheck import program as p
from ampcheck.lowering.names import EVENT_NAMES
from ampcheck.lowering.outline import Outline, outline
from ampcheck.lowering.segments import Segments
from ampcheck.lowering.select import Segment, select
from ampcheck.lowering.slicing import slice_module
from ampcheck.lowering.telling import contributes, own_attributes
from ampcheck.source import Source, Unreadable

__all__ = ["lower"]


def lower(
    source: Source,
    facts: Outline | None = None,
    holders: frozenset[str] = frozenset(),
    wanted: frozenset[str] | None = None,
    hooks: frozenset[str] = frozenset(),
    segments: Segments | None = None,
) -> p.Module:
    """The sliced core program of a file; raises Unreadable where libcst cannot parse it either.

    `facts` is its outline where somebody has it already; `holders` are imported names whose definitions hold
    events; with `wanted`, only these definitions are read, and what they refer to.  `hooks` are attributes by which
    classes of several files work together: what is bound to them matters.  `segments` may be
    somebody's who remembers.
    """
    segments = segments or Segments()
    body: list[p.Stmt] = []
    try:
        if p.Program.is_model(source.path):  # abridged already: all of it matters
            return p.Module(source.path, tuple(segments.read(source, Segment(1, source.text))), source.lines)
        facts = facts or outline(source)
        holders |= _renamed(facts)
        for segment in select(source, facts, holders, wanted):
            body += segments.read(source, segment)
        module = p.Module(source.path, tuple(body), source.lines)
        asked = wanted | _constants(facts, wanted) if wanted is not None else frozenset()
        return slice_module(module, holders, hooks | asked, segments.facts())
    except RecursionError:
        raise Unreadable("nested too deeply to be analysed: split its longest chain or expression") from None
    except (SyntaxError, ValueError, cst.CSTValidationError) as error:
        # Literals that only their evaluation shows to be none.
        raise source.refusal or Unreadable(f"not Python: {str(error)[:200]}") from None


def _renamed(facts: Outline) -> frozenset[str]:
    """What events go by here: ``from torch.nn.utils import clip_grad_norm_ as clip``."""
    origins = {name: dotted.rsplit(".", 1)[-1] for name, dotted in facts.imports.items()}
    return frozenset(name for name, origin in origins.items() if name != origin and origin in EVENT_NAMES)


def _constants(facts: Outline, wanted: frozenset[str]) -> frozenset[str]:
    """What classes without methods hold, which are asked for: ``Config.accumulation`` is read in another file."""
    classes = [piece for piece in facts.reachable(wanted) if piece.is_class and contributes(piece)]
    return frozenset().union(*map(own_attributes, classes))
