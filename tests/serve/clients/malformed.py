#!/usr/bin/env python3
"""300 malformed requests over raw sockets. Each must get an answer of 400 to 499 (and never 409,
408 or 429, which clients repeat), or a closed connection; then the server still serves, and a model
that was there before still has its weights."""

import argparse
import json
import os
import random
import socket
import time
import urllib.parse

from wire import Client, datum, field, forward_backward, output_of

REPEATED = {408, 409, 429}  # the SDK sends a request with such an answer again


def head(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = {"Host": "localhost", "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = f"{method} {path} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in lines.items() if value is not None
    )
    return text.encode("latin-1") + b"\r\n" + body


class Requests:
    """Makes malformed requests, each kind with random parts."""

    def __init__(self, key: str, model: str, seed: int):
        self.key, self.model, self.random = key, model, random.Random(seed)
        self.kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("send_")]

    def post(self, path: str, body: bytes, **headers: str) -> bytes:
        return head("POST", "/api/v1/" + path, body, X_API_Key=self.key, **headers)

    def noise(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def send_noise(self) -> bytes:
        return self.noise(self.random.randint(1, 3000)) + b"\r\n\r\n"

    def send_broken_request_line(self) -> bytes:
        return self.random.choice(
            [
                b"GET\r\n\r\n",
                b"GET /api/v1/healthz\r\n\r\n",
                b"GET /api/v1/healthz HTTP/9.9\r\n\r\n",
                b"G\0T / HTTP/1.1\r\n\r\n",
                b"GET http://[::1 HTTP/1.1\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self.noise(200),
            ]
        )

    def send_long_header(self) -> bytes:
        return head("GET", "/api/v1/healthz", X_API_Key=self.key, X_Long="a" * 1_000_000)

    def send_many_headers(self) -> bytes:
        more = {f"X_{index}": "a" for index in range(20_000)}
        return head("GET", "/api/v1/healthz", X_API_Key=self.key, **more)

    def send_long_path(self) -> bytes:
        return head("GET", "/api/v1/" + "a" * 500_000, X_API_Key=self.key)

    def send_wrong_path(self) -> bytes:
        path = self.random.choice(
            [
                "/api/v1/absent",
                "/api/v2/healthz",
                "/../../etc/passwd",
                "/api/v1/../../etc/passwd",
                "/api/v1/samplers/%2e%2e%2f%2e%2e",
                "/api/v1/training_runs/%00/checkpoints",
                "/api/v1/training_runs/a/checkpoints/weights/..%2f..%2fserve",
                "/%ff%fe",
                "/api/v1/samplers/" + "x" * 5000,
            ]
        )
        return head(self.random.choice(["GET", "POST", "DELETE"]), path, X_API_Key=self.key)

    def send_wrong_method(self) -> bytes:
        method = self.random.choice(["PUT", "PATCH", "TRACE", "CONNECT", "BREW", "GET"])
        return head(method, "/api/v1/create_model", X_API_Key=self.key)

    def send_wrong_key(self) -> bytes:
        key = self.random.choice([None, "", "tml-", self.key[:-1], self.key + "x", "\xff" * 99])
        return head("GET", "/api/v1/healthz", X_API_Key=key)

    def send_foreign_host(self) -> bytes:
        host = self.random.choice(["example.com", "localhost.example.com", "127.0.0.1.nip.io"])
        return head("GET", "/api/v1/healthz", X_API_Key=self.key, Host=host)

    def send_foreign_origin(self) -> bytes:
        return self.post("create_session", b"{}", Origin="https://example.com")

    def send_wrong_length(self) -> bytes:
        length = self.random.choice(["-1", "1e3", "99999999999999999999", "0x10", "", "5, 6"])
        return self.post("create_session", b"{}", Content_Length=length)

    def send_beyond_limit(self) -> bytes:
        return self.post("forward_backward", b"", Content_Length=str(1 << 40))

    def send_broken_chunks(self) -> bytes:
        body = self.random.choice(
            [b"zz\r\n", b"-5\r\nabc", b"5\r\nab\r\n0\r\n\r\n", b"ffffffffffffffff\r\nab"]
        )
        return self.post("create_session", body, Transfer_Encoding="chunked", Content_Length=None)

    def send_two_framings(self) -> bytes:
        return self.post("create_session", b"0\r\n\r\n", Transfer_Encoding="chunked")

    def send_broken_json(self) -> bytes:
        body = self.random.choice(
            [
                b"",
                b"{",
                b"[]",
                b"null",
                b'"text"',
                b"{'a': 1}",
                b'{"a": NaN}',
                b'{"a": 1}}',
                b'{"session_id": "\xff\xfe"}',
                b'{"session_id": "\\ud800"}',
                b"[" * 100_000,
                b'{"a":' * 50_000,
                self.noise(500),
            ]
        )
        path = self.random.choice(["create_model", "optim_step", "asample", "save_weights"])
        return self.post(path, body, Content_Type="application/json")

    def send_wrong_types(self) -> bytes:
        wrong = [None, True, -1, 1e300, "x", [], {}, [[]], 2**70, "x" * 100_000, {"a": None}]
        good = {
            "create_model": {
                "session_id": "s",
                "model_seq_id": 0,
                "base_model": "m",
                "lora_config": {"rank": 8},
            },
            "optim_step": {"model_id": self.model, "seq_id": "one", "adam_params": {}},
            "save_weights": {"model_id": self.model, "seq_id": [], "path": "a"},
            "load_weights": {"session_id": "s", "model_seq_id": 0, "path": "tinker://a/weights/b"},
            "create_sampling_session": {"session_id": "s", "sampling_session_seq_id": 0},
            "asample": {"sampling_session_id": "x", "seq_id": 0, "num_samples": 1, "prompt": {}},
            "get_info": {"model_id": "x"},
            "retrieve_future": {"request_id": "x"},
            "weights_info": {"tinker_path": "x"},
            "session_heartbeat": {"session_id": "x"},
        }
        path = self.random.choice(sorted(good))
        body = dict(good[path])
        body[self.random.choice(sorted(body))] = self.random.choice(wrong)
        return self.post(path, json.dumps(body).encode(), Content_Type="application/json")

    def protobuf(self, body: bytes) -> bytes:
        return self.post("forward_backward", body, Content_Type="application/x-protobuf")

    def send_broken_protobuf(self) -> bytes:
        return self.protobuf(
            self.random.choice(
                [
                    b"",
                    b"\xff" * 50,
                    b"\x0a\xff\xff\xff\xff\x0f",
                    field(1, self.model)[:-2],
                    field(1, b"\xff\xfe") + field(2, 1),
                    field(1, self.model) + field(2, 1) + field(3, b"\x0a" * 5),
                    field(1, self.model) + field(2, 1) + field(3, field(3, b"x" * 9)[:-4]),
                    b"\x0b" * 10_000,
                    self.noise(2000),
                ]
            )
        )

    def send_unknown_model(self) -> bytes:
        return self.protobuf(forward_backward("nobody:train:0", 1, [datum([5], target_tokens=[6])]))

    def send_cut_protobuf(self) -> bytes:
        """A request whose bytes were cut in the middle of its only datum."""
        whole = field(1, self.model) + field(2, 1)
        part = field(3, datum([5, 6, 7], target_tokens=[6, 7, 8]))
        return self.protobuf(whole + part[: self.random.randint(1, len(part) - 1)])


def exchange(address: tuple[str, int], request: bytes, seconds: float) -> bytes:
    """Sends the request and reads until the server has answered or closed."""
    with socket.create_connection(address, timeout=seconds) as door:
        try:
            door.sendall(request)
            door.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server answered and closed before it had read all
        found = b""
        while len(found) < 1 << 20:
            try:
                part = door.recv(1 << 16)
            except OSError:  # closed, or silent for `seconds`
                return found
            if not part:
                break
            found += part
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("TINKER_BASE_URL"))
    parser.add_argument("--key", default=os.environ.get("TINKER_API_KEY"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    parts = urllib.parse.urlsplit(options.url)
    client = Client(options.url, options.key)
    model = client.model(options.model)
    probe = [datum([5, 6, 7, 8], target_tokens=[6, 7, 8, 9])]
    before = output_of(client.run("forward_backward", forward_backward(model, 1, probe)))

    # Malformed bodies name another model, whose seq_ids have not been used.
    requests = Requests(options.key, client.model(options.model), options.seed)
    statuses: dict[str, int] = {}
    slowest = 0.0
    for index in range(options.count):
        kind = requests.kinds[index % len(requests.kinds)]
        request = kind()
        began = time.monotonic()
        answer = exchange((parts.hostname, parts.port), request, 20)
        slowest = max(slowest, time.monotonic() - began)
        shown = f"{kind.__name__} {request[:300]!r}: {answer[:300]!r}"
        if not answer:
            statuses["closed"] = statuses.get("closed", 0) + 1
            continue
        words = answer.split(b" ", 2)
        assert answer.startswith(b"HTTP/1.") and len(words) > 1, shown
        status = int(words[1])
        if status == 200 and b'"request_id"' in answer:
            # A promise: what is wrong with it was found when it was run.
            promise = json.loads(answer.partition(b"\r\n\r\n")[2])["request_id"]
            result = client.wait(promise)
            assert isinstance(result, dict) and "error" in result, f"{shown}: {result}"
            statuses["failed"] = statuses.get("failed", 0) + 1
            continue
        assert 400 <= status < 500 and status not in REPEATED, shown
        assert answer.partition(b"\r\n\r\n")[2], f"an empty body: {shown}"
        statuses[str(status)] = statuses.get(str(status), 0) + 1
    # The connection that was opened before them, and the model, are as they were.
    after = output_of(client.run("forward_backward", forward_backward(model, 2, probe)))
    assert before == after, (before, after)
    print(json.dumps({"statuses": statuses, "slowest": slowest}))


if __name__ == "__main__":
    main()
