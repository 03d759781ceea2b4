"""Which checkpoints a file writes, and whether a loss scaler's state is in them.

    source ──written──► what is written, of whom ──linked──► a `Checkpoint` at the end of each trace it belongs to

This is read from the text and not run: where a checkpoint is written decides nothing, and a run that followed every
``if epoch % save_every == 0`` would be forked by each.  Whatever hints that a scaler's state is kept somewhere
makes all of it silent.
"""

from ampcheck.checkpoints.linking import with_checkpoints

__all__ = ["with_checkpoints"]
