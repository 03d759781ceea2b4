"""The language server: what `ampcheck check` says, while the code is being written.

    client ──documents──► files ──► session ──findings, runs──► diagnostics, hovers, hints, actions ──► client

`session` is everything below the transport: open files in, findings and runs out, equal to those of a check of the same
files.  `checking` says when to check, `application` speaks the protocol, and only these and what shows things to the
client know of pygls or lsprotocol.
"""
