"""The options of the command line, by what they are about: each module's `add` puts its own on a parser.

Parsing costs no more than argparse: nothing of the analysis is imported here.
"""
