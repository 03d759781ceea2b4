"""From a program to traces: every root is run in a small scope, once for each set of choices.

The question this package answers is *which sequences of events can this loop produce?*  Terms:

root
    where a run begins: the module itself, or a function that holds part of a step and that nothing calls here.
small scope
    a window of unknown length is three micro-batches, an epoch two windows and a tail, a training two epochs.
    An order fault that a real run meets is met in such a small one.
choice
    how a test comes out that the code leaves open (`ampcheck.running.choices`).
setting
    what only shows while the code runs: which number is the window's length, which names are optimizers.  A run
    that learns something new is thrown away, and the root is run again with it.

Take ``if (i + 1) % args.accum == 0: optimizer.step()``.  In the first run the test is an atom, since nothing
is known of ``args.accum``; the deviating run in which it holds sees a step under a test modulo ``args.accum`` of
gradients from outside that test, so ``args.accum`` is a window length, run as 3.  In the second run ``i`` counts from 0
and the test is computed: the step comes with the micro-batches 2, 5, 9, 12, and no choice is left.
"""

from ampcheck.running.again import Explorations
from ampcheck.running.exploring import Exploration, explore

__all__ = ["Exploration", "Explorations", "explore"]
