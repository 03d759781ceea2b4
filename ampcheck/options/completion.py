"""Which shell is to complete ampcheck's options."""

from __future__ import annotations

import argparse

__all__ = ["SHELLS", "add"]

SHELLS = ("bash", "zsh", "fish", "tcsh")
USE = (
    'For bash, put `eval "$(ampcheck completion bash)"` into ~/.bashrc; for zsh, run `ampcheck completion zsh > '
    '"${fpath[1]}/_ampcheck"`; for fish, `ampcheck completion fish > ~/.config/fish/completions/ampcheck.fish`.'
)


def add(parser: argparse.ArgumentParser, top: argparse.ArgumentParser) -> None:
    """The shell; the command is also handed the whole parser, `top`, which it is about."""
    parser.set_defaults(top=top)
    parser.epilog = USE
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
