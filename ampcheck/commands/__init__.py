"""The commands behind `ampcheck.cli`, one a module: `run` takes the parsed options and returns an exit code.

Only the module of the command that really runs is imported.
"""
