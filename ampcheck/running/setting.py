"""What is settled about a root before it is run, found out by earlier runs of it.

Which unknown number is the window length, and which names turn out to be optimizers, only shows while the code
runs.  A run that learns something new is thrown away and the root is run again with a larger setting, until nothing
new turns up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ampcheck.events import Site
from ampcheck.trace import Role

__all__ = ["LARGEST_LITERAL", "SYMBOLIC", "Setting"]

SYMBOLIC = 3
LARGEST_LITERAL = 32


@dataclass(slots=True)
class Setting:
    """The window lengths by how the code spells them, with how each is declared; and the roles seen so far.

    `windows` maps a spelling ("args.accum", "4") to the length it is run as; `labels` names literals.
    `loops`: the root has a loop over batches after all; `batch_loops`: the loops that turned out to hold a
    backward, although nothing in the code's shape says so, and `outer_loops` those around them.
    `clip_norms`: where norms are taken that clips use.
    `engaged`: the libraries' engines that differentiate here, by their births (`Machine.births`): an optimizer that is
    known by name alone is one that such an engine has prepared.
    """

    windows: dict[str, int] = field(default_factory=dict)
    declared: dict[str, set[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    optimizers: tuple[Role, ...] = ()
    models: frozenset[str] = frozenset()
    scaled_tail: str | None = None
    loops: bool = False
    engaged: set[str] = field(default_factory=set)
    batch_loops: set[Site] = field(default_factory=set)
    clip_norms: set[Site] = field(default_factory=set)
    outer_loops: set[Site] = field(default_factory=set)
    grown: bool = False

    def add_window(self, spelling: str, how: str) -> None:
        """Take note that a quantity is a window length, declared in this way ("division", "step", ...)."""
        if spelling not in self.windows:
            self.grown = True
            literal = int(spelling) if spelling.isdigit() else SYMBOLIC
            self.windows[spelling] = literal if 2 <= literal <= LARGEST_LITERAL else SYMBOLIC
        self.declared.setdefault(spelling, set()).add(how)

    def double(self) -> bool:
        """Run unknown windows as four micro-batches from now on; whether that changes anything."""
        odd = [s for s, length in self.windows.items() if length == SYMBOLIC and not s.isdigit()]
        self.windows.update(dict.fromkeys(odd, SYMBOLIC + 1))
        return bool(odd)

    def label(self, spelling: str, name: str) -> None:
        """A literal that a constant of this name stands for is a window's length."""
        self.labels.setdefault(spelling, name)
        if spelling not in self.windows:
            self.add_window(spelling, "")

    @property
    def length(self) -> int:
        """The longest window, 1 where there is none."""
        return max(self.windows.values(), default=1)

    @property
    def batches(self) -> int:
        """Batches an epoch: two windows and a tail."""
        return 2 * self.length + 1 if self.windows else 3
