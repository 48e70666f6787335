"""Exceptions. Every error of the library is a moonring.Error; its subclasses are also the built-in
exceptions that Python code expects, so both `except moonring.NotFound` and
`except FileNotFoundError` work."""

import re


class Error(RuntimeError):
    """An error of Moonring; str(error) is its message.

    code: the name of the C API's code (lua/embed.h): "INVALID_ARGUMENT", "NOT_FOUND",
    "PERMISSION_DENIED", "EXHAUSTED", "CANCELLED" or "FAILED".
    """

    code = "FAILED"


class InvalidArgument(Error, ValueError):
    """An error in arguments, in a configuration or in data."""

    code = "INVALID_ARGUMENT"


class NotFound(Error, FileNotFoundError):
    """A file, a model, a command or a function does not exist."""

    code = "NOT_FOUND"


class PermissionDenied(Error, PermissionError):
    """A path outside of the roots, or something else that confined code may not do."""

    code = "PERMISSION_DENIED"


class Exhausted(Error, MemoryError):
    """The machine's memory, a limit on memory or instructions, or the disk is used up."""

    code = "EXHAUSTED"


class Cancelled(Error):
    """Runtime.cancel or an interrupt ended the call, or the cancelling of another rank did; or
    cancel had been called before it."""

    code = "CANCELLED"


class LoadError(Error, ImportError):
    """The native library cannot be loaded: LibTorch, a system library or a file is missing."""


CLASSES = {
    1: InvalidArgument,
    2: NotFound,
    3: PermissionDenied,
    4: Exhausted,
    5: Cancelled,
    6: Error,
}

_STATUS = re.compile(r"^[A-Z][A-Z_]{5,}: ")


def of(code: int, text: str) -> Error:
    """Returns the exception for a moonring_code that is not MOONRING_OK."""
    return CLASSES.get(code, Error)(_STATUS.sub("", text, count=1) or "an error without a message")
