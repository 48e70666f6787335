"""Reads the scalars of TensorBoard's event files: records of TFRecord, each a protobuf Event."""

import pathlib
import struct


def fields(message: bytes):
    """The fields of a protobuf message: pairs of number and value, of bytes for sub-messages."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = message[at : at + size]
            at += size
        yield key >> 3, value


def records(path: pathlib.Path):
    """The records of a file: a length in 8 bytes, 4 of a checksum, the record, 4 of a checksum."""
    text, at = path.read_bytes(), 0
    while at < len(text):
        (size,) = struct.unpack_from("<Q", text, at)
        yield text[at + 12 : at + 12 + size]
        at += 16 + size


def scalars(path: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    """The points (step, value) of each tag, in the order of the file."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in records(path):
        event = dict(fields(record))
        for number, summary in fields(event.get(5, b"")):
            value = dict(fields(summary)) if number == 1 else {}
            if 2 in value:
                (number,) = struct.unpack("<f", value[2])
                found.setdefault(value[1].decode(), []).append((event.get(2, 0), number))
    return found
