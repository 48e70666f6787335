"""Moonring's version: what `moonring version` prints and //:archive is called."""

VERSION = "0.1.0"
