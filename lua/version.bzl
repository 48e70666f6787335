"""Moonring's version, which `moonring version` prints and the name of //:archive contains."""

VERSION = "0.1.0"
