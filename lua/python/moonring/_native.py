"""The C API of libmoonring.so (lua/embed.h), declared for ctypes."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p

from moonring import _libraries

OK = 0
OUTPUT, NOTE, WARNING = 0, 1, 2  # moonring_log_kind

LogCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ProgressCallback = CFUNCTYPE(None, c_void_p, c_char_p)


class Options(ctypes.Structure):
    """moonring_options."""

    _fields_ = [
        ("size", c_size_t),
        ("assets", c_char_p),
        ("roots", POINTER(c_char_p)),
        ("root_count", c_size_t),
        ("unconfined", c_int),
        ("instructions", c_int64),
        ("memory", c_int64),
        ("threads", c_int),
        ("device", c_char_p),
        ("log", LogCallback),
        ("progress", ProgressCallback),
        ("context", c_void_p),
    ]


_WORDS = [c_void_p, c_char_p, c_int, POINTER(c_char_p)]
_FUNCTIONS = {
    "moonring_version": (c_char_p, []),
    "moonring_create": (c_int, [POINTER(Options), POINTER(c_void_p), c_char_p, c_size_t]),
    "moonring_destroy": (None, [c_void_p]),
    "moonring_run_file": (c_int, _WORDS),
    "moonring_run_string": (c_int, [c_void_p, c_char_p, c_char_p, c_int, POINTER(c_char_p)]),
    "moonring_run_command": (c_int, _WORDS),
    "moonring_call_tensors": (
        c_int,
        [
            c_void_p,
            c_char_p,
            c_char_p,
            POINTER(c_void_p),
            c_size_t,
            POINTER(c_void_p),
            POINTER(POINTER(c_void_p)),
            POINTER(c_size_t),
        ],
    ),
    "moonring_free": (None, [c_void_p]),
    "moonring_cancel": (None, [c_void_p, c_int]),
    "moonring_interrupt": (None, [c_void_p]),
    "moonring_last_error": (c_char_p, [c_void_p]),
    "moonring_count_memory": (None, []),
}


def library() -> ctypes.CDLL:
    """libmoonring.so with the types of its functions; loaded at the first call."""
    loaded = _libraries.library()
    if loaded.moonring_version.restype is not c_char_p:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.argtypes = arguments
            function.restype = result
    return loaded


def assets() -> str:
    """The folder with lua/ and scripts/."""
    return _libraries.runtime_folder()
