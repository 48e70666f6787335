"""The service's wire in the standard library: HTTP, promises, and the protobuf messages of
forward_backward and of sampling. For tests that have no SDK, and for requests that no SDK sends."""

import array
import http.client
import json
import struct
import time
import urllib.parse

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes(made + bytes([value]))


def field(number: int, value: int | float | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message in order: number, and a number or bytes."""
    found, place = [], 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        tag = number()
        kind = tag & 7
        if kind == VARINT:
            value: int | bytes = number()
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind) or number()
            value = message[place : place + size]
            assert len(value) == size, "a field ends beyond its message"
            place += size
        found.append((tag >> 3, value))
    return found


def one(message: bytes, number: int, absent=b""):
    """The last value of a field."""
    return next((value for at, value in reversed(fields(message)) if at == number), absent)


def several(message: bytes, number: int) -> list:
    return [value for at, value in fields(message) if at == number]


def numbers(data: bytes, code: str) -> list:
    return list(array.array(code, data))


def tensor(values: list, shape: list[int] | None = None, dtype: int | None = None) -> bytes:
    """float32 for floats, int64 for integers."""
    whole = all(isinstance(value, int) for value in values)
    data = array.array("q" if whole else "f", values).tobytes()
    dims = b"".join(varint(size) for size in shape or [len(values)])
    return field(1, data) + field(3, dtype or (2 if whole else 1)) + field(4, dims)


def datum(tokens: list[int], **inputs: list) -> bytes:
    chunk = field(1, field(1, array.array("i", tokens).tobytes()))
    made = field(1, chunk)
    for name, values in inputs.items():
        made += field(2, field(1, name) + field(2, tensor(values)))
    return made


def forward_backward(
    model: str, seq: int, data: list[bytes], loss: str = "cross_entropy", forward_only=False
) -> bytes:
    made = field(1, model) + field(2, seq) + b"".join(field(3, one) for one in data)
    return made + field(4, loss) + (field(6, 1) if forward_only else b"")


def output_of(body: bytes) -> tuple[dict[str, float], list[list[float]]]:
    """Metrics and the log-probs of each datum, from a ForwardBackwardOutput."""
    metrics = {
        one(entry, 1).decode(): struct.unpack("<d", one(entry, 2, bytes(8)))[0]
        for entry in several(body, 3)
    }
    found = []
    for record in several(body, 2):
        for entry in several(record, 2):
            assert one(entry, 1) == b"logprobs", one(entry, 1)
            batched = one(entry, 2)
            data, offsets = one(batched, 1), numbers(one(batched, 2), "q")
            found += [
                numbers(data[offsets[i] : offsets[i + 1]], "f") for i in range(len(offsets) - 1)
            ]
    return metrics, found


def samples_of(body: bytes) -> list[tuple[list[int], list[float], int]]:
    """Tokens, log-probs and stop reason of each answer of a SampleResponse."""
    return [
        (numbers(one(entry, 2), "i"), numbers(one(entry, 3), "f"), one(entry, 1, 0))
        for entry in several(body, 1)
    ]


def prompt_log_probs_of(body: bytes) -> list[float]:
    return numbers(one(body, 2), "f")


class Client:
    """Requests over one kept connection."""

    def __init__(self, url: str, key: str, seconds: float = 60):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.key, self.seconds = parts.hostname, parts.port, key, seconds
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str):
        """Status, type and body of an answer."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, {"X-API-Key": self.key} | names)
        answer = self.connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()

    def post(self, path: str, body: dict | bytes) -> dict:
        """A request that must be accepted; its JSON answer."""
        kind = "application/json" if isinstance(body, dict) else "application/x-protobuf"
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        status, _, answer = self.ask("POST", "/api/v1/" + path, data, Content_Type=kind)
        assert status == 200, f"{path}: {status} {answer!r}"
        return json.loads(answer)

    def get(self, path: str) -> dict:
        status, _, answer = self.ask("GET", "/api/v1/" + path)
        assert status == 200, f"{path}: {status} {answer!r}"
        return json.loads(answer)

    def wait(self, request: str, seconds: float = 120) -> dict | bytes:
        """The result of a promise."""
        body = json.dumps({"request_id": request, "allow_metadata_only": True}).encode()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, kind, answer = self.ask(
                "POST",
                "/api/v1/retrieve_future",
                body,
                Content_Type="application/json",
                Accept="application/x-protobuf",
            )
            if status == 200:
                return answer if "protobuf" in kind else json.loads(answer)
            assert status == 408, f"retrieve_future: {status} {answer!r}"
        raise AssertionError(f"{request}: no result in {seconds} s")

    def run(self, path: str, body: dict | bytes) -> dict | bytes:
        """A promise and its result, which must not be an error."""
        result = self.wait(self.post(path, body)["request_id"])
        assert isinstance(result, bytes) or "error" not in result, f"{path}: {result}"
        return result

    def model(self, base: str, rank: int = 8, seed: int | None = 1) -> str:
        """A session with one model; its id."""
        session = self.post("create_session", {"tags": [], "type": "create_session"})["session_id"]
        created = self.run(
            "create_model",
            {
                "session_id": session,
                "model_seq_id": 0,
                "base_model": base,
                "lora_config": {"rank": rank, "seed": seed},
            },
        )
        return created["model_id"]
