"""The interpreter: a machine whose operations are put together from the modules of this package."""

from __future__ import annotations

from functools import partial

from ampcheck import program as p
from ampcheck.running import assigning, attributes, calls, evaluating, executing, importing
from ampcheck.running import values as v
from ampcheck.running.machine import Machine
from ampcheck.running.merging import join, try_arm

__all__ = ["Interpreter"]


class Interpreter(Machine):
    """Runs core programs."""

    def evaluate(self, node: p.Expr) -> v.Value:
        """The value of an expression."""
        return evaluating.evaluate(self, node)

    def execute(self, body: tuple[p.Stmt, ...]) -> None:
        """Run statements."""
        executing.execute(self, body)

    def call(self, callee: v.Value, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr) -> v.Value:
        """Call a value."""
        return calls.call_value(self, callee, args, kwargs, node)

    def evaluate_attribute(self, value: v.Value, name: str) -> v.Value:
        """``value.name``."""
        return attributes.attribute(self, value, name)

    def module_member(self, link: p.Link) -> v.Value:
        """A definition of another module of the program."""
        return importing.linked(self, link, link.name)

    def assign(self, target: p.Expr, value: v.Value) -> None:
        """``target = value``."""
        assigning.assign(self, target, value)

    def merge_arms(self, node: p.If) -> bool:
        """Run both arms as one if they differ in nothing that matters."""
        if node in self.forking:
            return False
        arms = [try_arm(self, partial(self._run_arm, body)) for body in (node.body, node.orelse)]
        one, other = arms
        if one is not None and other is not None:
            merged = []
            for place in {**one[0], **other[0]}:
                where = (one[0].get(place) or other[0][place])[0]
                old = where.get(place[1])
                if old is None and (place not in one[0] or place not in other[0]):
                    # Bound in one arm only: it exists when it is used.
                    value: v.Value | None = (one[0].get(place) or other[0][place])[1]
                    if not isinstance(value, (v.Unknown, v.Const, v.Lib)) or getattr(value, "role", None):
                        value = None
                else:
                    mine = one[0][place][1] if place in one[0] else old
                    its = other[0][place][1] if place in other[0] else old
                    value = join(mine, its)
                if value is None:
                    break
                merged.append((where, place[1], value))
            else:
                for where, key, value in merged:
                    self.store(where, key, value)
                return True
        self.forking.add(node)
        return False

    def _run_arm(self, body: tuple[p.Stmt, ...]) -> None:
        self.execute(body)

    def merge_values(self, node: p.IfExp) -> v.Value | None:
        """The value of both arms if they differ in nothing that matters."""
        if node in self.forking:
            return None
        arms = [try_arm(self, partial(self.evaluate, arm)) for arm in (node.body, node.orelse)]
        one, other = arms
        if one is not None and other is not None and not one[0] and not other[0]:
            value = join(one[1], other[1])
            if value is not None:
                return value
        self.forking.add(node)
        return None
