"""What every client program has: the server's address, key and model as arguments, and its results
as one JSON object on stdout.

A program ends with code 0 if all that it checks is right; otherwise with an assertion that names
what came and what was expected.
"""

import argparse
import contextlib
import json
import logging
import math
import os
import sys
import time

import tinker


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", default=os.environ.get("TINKER_BASE_URL"))
    parser.add_argument("--key", default=os.environ.get("TINKER_API_KEY"))
    parser.add_argument("--model", required=True, help="base_model")
    parser.add_argument("--vocabulary", type=int, default=256, help="token ids are below this")
    parser.add_argument("--length", type=int, default=24, help="tokens of a usual document")
    parser.add_argument("--rank", type=int, default=8, help="of LoRA; 0 trains all weights")
    return parser


def connect(options: argparse.Namespace) -> tinker.ServiceClient:
    return tinker.ServiceClient(base_url=options.url, api_key=options.key)


def result(future):
    """The result of a future of any version of the SDK; other values as they are."""
    return future.result() if hasattr(future, "result") else future


def create(service: tinker.ServiceClient, options: argparse.Namespace, seed: int = 1, **more):
    return result(
        service.create_lora_training_client(
            base_model=options.model, rank=options.rank, seed=seed, **more
        )
    )


def report(**values) -> None:
    print(json.dumps(values))


def close(found: float, expected: float, relative: float, what: str, floor: float = 1.0) -> None:
    """Asserts that two numbers differ by at most `relative` times max(`expected`, `floor`)."""
    bound = relative * max(abs(expected), floor)
    assert math.isfinite(found) and abs(found - expected) <= bound, (
        f"{what}: {found!r}, expected {expected!r} within {bound}"
    )


@contextlib.contextmanager
def refused(what: str, *words: str, within: float = 20.0):
    """Asserts that the block raises at once an error that contains the words."""
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        took, message = time.monotonic() - began, str(error)
        assert took < within, f"{what}: refused only after {took:.1f} s: {message}"
        for word in words:
            assert word.lower() in message.lower(), f"{what}: {word!r} is not in {message!r}"
        logging.getLogger("refusals").info("%s: %s: %s", what, type(error).__name__, message)
        return
    raise AssertionError(f"{what}: was accepted")


class LogRecords(logging.Handler):
    """Collects what the SDK's loggers say, from `level` on."""

    def __init__(self, level: int = logging.WARNING):
        super().__init__(level)
        self.records: list[logging.LogRecord] = []
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def exceptions(self) -> list[str]:
        return [
            record.getMessage()
            for record in self.records
            if record.exc_info or record.levelno >= logging.ERROR
        ]


def log_to_stderr(level: int = logging.INFO) -> None:
    logging.basicConfig(stream=sys.stderr, level=level, format="%(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
