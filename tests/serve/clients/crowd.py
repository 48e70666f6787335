#!/usr/bin/env python3
"""200 connections at once, and clients that vanish: in the middle of a header, of a body, and while
they wait for a result. Those that stay are all answered."""

import argparse
import json
import os
import random
import socket
import threading
import time
import urllib.parse

from malformed import head
from wire import Client, datum, forward_backward, output_of


def vanish(address: tuple[str, int], key: str, model: str, how: int) -> None:
    """Connects, sends a part of a request, and leaves."""
    body = forward_backward(model, 10**6, [datum([5] * 1000, target_tokens=[6] * 1000)])
    whole = head("POST", "/api/v1/forward_backward", body, X_API_Key=key)
    poll = json.dumps({"request_id": "absent"}).encode()
    sent = [
        whole[:20],
        whole[: len(whole) - 100],
        head("POST", "/api/v1/retrieve_future", poll, X_API_Key=key),
        b"",
    ][how % 4]
    with socket.create_connection(address, timeout=20) as door:
        door.sendall(sent)
        if how % 2:
            # A reset instead of an orderly end.
            door.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("TINKER_BASE_URL"))
    parser.add_argument("--key", default=os.environ.get("TINKER_API_KEY"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    parts = urllib.parse.urlsplit(options.url)
    address = (parts.hostname, parts.port)
    first = Client(options.url, options.key)
    model = first.model(options.model)
    probe = [datum([5, 6, 7, 8], target_tokens=[6, 7, 8, 9])]

    def request(seq: int) -> str:
        return first.post("forward_backward", forward_backward(model, seq, probe))["request_id"]

    expected = output_of(first.wait(request(1)))
    # seq_id 3 cannot run before 2: all who wait for it hold their connections until 2 has come.
    late = request(3)
    failures: list[str] = []
    ready = threading.Barrier(options.connections + 1)
    slowest = [0.0] * options.connections

    def stay(index: int) -> None:
        try:
            client = Client(options.url, options.key)
            for _ in range(options.rounds):
                began = time.monotonic()
                assert client.get("healthz") == {"status": "ok"}
                slowest[index] = max(slowest[index], time.monotonic() - began)
            ready.wait(120)
            assert output_of(client.wait(late))[1], "no log-probs"
        except Exception as error:
            failures.append(f"{index}: {error!r}")
            ready.abort()

    threads = [threading.Thread(target=stay, args=[i]) for i in range(options.connections)]
    for thread in threads:
        thread.start()
    ready.wait(120)
    shuffled = random.Random(1)
    for index in range(options.connections):
        vanish(address, options.key, model, shuffled.randrange(4))
    began = time.monotonic()
    found = output_of(first.wait(request(2)))
    for thread in threads:
        thread.join(120)
    assert not failures, failures[:5]
    assert not any(thread.is_alive() for thread in threads)
    assert found == expected, (found, expected)
    assert output_of(first.wait(request(4))) == expected
    print(
        json.dumps(
            {"healthz_slowest": max(slowest), "all_answered_after": time.monotonic() - began}
        )
    )


if __name__ == "__main__":
    main()
