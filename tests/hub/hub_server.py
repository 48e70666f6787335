"""A small hub on loopback, for tests: it answers downloads as the Hugging Face hub does.

    with FakeHub() as hub:
        hub.add("model", "org/tiny", {"config.json": b"{}", "model.safetensors": b"..."})
        environment["HF_ENDPOINT"] = hub.endpoint

Large files (LARGE bytes and more, and .safetensors) are on a separate storage server, another
origin, to which a request is redirected with the headers X-Linked-Etag and X-Linked-Size; small
ones are behind a relative redirect. `requests` records the requests; `faults` lists planned faults.
"""

import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from dataclasses import dataclass, field

LARGE = 100_000
TOKEN = "hf_right"


def git_sha1(contents: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(contents) + contents).hexdigest()


@dataclass
class Repository:
    files: dict[str, bytes]
    revisions: dict[str, str]
    private: bool = False  # only visible with TOKEN
    gated: str = ""  # "": not gated; "open": with TOKEN; "closed": for nobody

    def commit(self, revision: str) -> str | None:
        return revision if revision in self.revisions.values() else self.revisions.get(revision)

    def etag(self, path: str) -> str:
        contents = self.files[path]
        return hashlib.sha256(contents).hexdigest() if self.is_large(path) else git_sha1(contents)

    def is_large(self, path: str) -> bool:
        return len(self.files[path]) >= LARGE or path.endswith((".safetensors", ".gguf"))


@dataclass
class Fault:
    """A planned fault of requests whose path ends with `path`, for a number of times."""

    path: str
    times: int = 1
    method: str = "GET"
    code: int = 0  # status code instead of the file
    headers: dict[str, str] = field(default_factory=dict)
    break_after: int = -1  # bytes, after which the connection is reset
    stall_after: int = -1  # bytes, after which nothing is sent for a while
    bytes_a_second: float = 0
    change: bool = False  # the last byte is wrong
    no_ranges: bool = False
    size: int = -1  # reported size; -1: the true one


@dataclass
class Request:
    method: str
    path: str
    range: str
    token: str
    where: str  # "hub" or "storage"


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # the client has closed the connection, as some tests do


class FakeHub:
    def __init__(self):
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.servers = []
        for where in ("hub", "storage"):
            server = Server(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            server.hub, server.where = self, where
            self.servers.append(server)
        self.endpoint = f"http://127.0.0.1:{self.servers[0].server_port}"
        # Another name of the same machine counts as another host, to which the hub's token must not
        # be sent.
        self.storage = f"http://localhost:{self.servers[1].server_port}"

    def __enter__(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def encrypt(self, certificate: str, key: str, storage: bool) -> None:
        """The hub uses TLS from now on, optionally also its storage server. Must be called before
        any request."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        for server in self.servers[: 2 if storage else 1]:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.endpoint = f"https://localhost:{self.servers[0].server_port}"
        if storage:
            self.storage = f"https://127.0.0.1:{self.servers[1].server_port}"

    def add(self, kind: str, name: str, files: dict[str, bytes], **more) -> Repository:
        # The commit is a hash of the contents, so that recordings stay valid.
        digest = hashlib.sha1(repr(sorted((p, git_sha1(b)) for p, b in files.items())).encode())
        repository = Repository(files, {"main": digest.hexdigest()}, **more)
        self.repositories[kind, name] = repository
        return repository

    def asked(self, path: str, method: str = "GET", where: str = "") -> list[Request]:
        """Returns the requests whose path ends with this text, including those to the storage
        server."""
        with self.lock:
            return [
                r
                for r in self.requests
                if r.path.endswith(path) and r.method == method and r.where.startswith(where)
            ]

    def fault(self, path: str, method: str, of_body: bool) -> Fault | None:
        """Returns the planned fault of an answer, or of the bytes of a file."""
        with self.lock:
            for fault in self.faults:
                fits = path.endswith(fault.path) and method == fault.method and fault.times > 0
                if fits and of_body == (fault.code == 0 and fault.size < 0):
                    fault.times -= 1
                    return fault
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub = self.server.hub
        address = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(address.path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with hub.lock:
            hub.requests.append(
                Request(self.command, path, self.headers.get("Range", ""), token, self.server.where)
            )
        if self.server.where == "storage":
            return self.send_file(path, self.find_in_storage(path))
        if re.fullmatch(r"/api/(model|dataset)s", path):
            return self.search(path[5:-1], urllib.parse.parse_qs(address.query))
        listed = re.fullmatch(r"/api/(model|dataset)s/(.+)/revision/(.+)", path)
        if listed:
            return self.list(*listed.groups())
        small = re.fullmatch(r"/api/resolve-cache/(model|dataset)s/(.+?)/([0-9a-f]{40})/(.+)", path)
        if small:
            return self.send_small(*small.groups())
        resolved = re.fullmatch(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)", path)
        if resolved:
            kind = "dataset" if resolved.group(1) else "model"
            return self.resolve(kind, *resolved.groups()[1:])
        self.refuse(404, "", "Not Found")

    def refuse(self, code: int, error: str, message: str, headers=()):
        body = json.dumps({"error": message}).encode()
        self.send_response(code)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("X-Error-Message", message)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def find(self, kind: str, name: str) -> Repository | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token != TOKEN:
            self.refuse(401, "", "Invalid credentials in Authorization header")
            return None
        repository = self.server.hub.repositories.get((kind, name))
        if repository is None or (repository.private and not token):
            # Like the real hub: without a token, a client cannot learn whether the repository
            # exists.
            code = 404 if token else 401
            self.refuse(code, "RepoNotFound", "Repository not found")
            return None
        return repository

    def search(self, kind: str, query: dict[str, list[str]]):
        sought = query.get("search", [""])[0].lower()
        author = query.get("author", [""])[0]
        found = [
            name
            for of, name in self.server.hub.repositories
            if of == kind and sought in name.lower() and name.startswith(author)
        ]
        self.send_json([{"id": name} for name in found])

    def send_json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def list(self, kind: str, name: str, revision: str):
        fault = self.server.hub.fault(self.path, self.command, of_body=False)
        if fault:
            return self.refuse(fault.code, "", "it fails", fault.headers)
        repository = self.find(kind, name)
        if repository is None:
            return
        commit = repository.commit(revision)
        if commit is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        self.send_json(
            {
                "_id": "1",
                "id": name,
                "sha": commit,
                "private": repository.private,
                "gated": False,
                "disabled": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": [{"rfilename": path} for path in repository.files],
            }
        )

    def resolve(self, kind: str, name: str, revision: str, path: str):
        repository = self.find(kind, name)
        if repository is None:
            return
        shown = self.headers.get("Authorization")
        if repository.gated == "closed" or (repository.gated and not shown):
            code = 403 if shown else 401
            return self.refuse(code, "GatedRepo", f"Access to {kind} {name} is restricted")
        commit = repository.commit(revision)
        if commit is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        headers = {"X-Repo-Commit": commit}
        if path not in repository.files:
            return self.refuse(404, "EntryNotFound", "Entry not found", headers)
        fault = self.server.hub.fault(path, self.command, of_body=False)
        if fault and fault.code:
            return self.refuse(fault.code, "", "it fails", fault.headers)
        if repository.is_large(path):
            etag = repository.etag(path)
            size = fault.size if fault and fault.size >= 0 else len(repository.files[path])
            headers["X-Linked-Etag"] = f'"{etag}"'
            headers["X-Linked-Size"] = str(size)
            headers["Location"] = f"{self.server.hub.storage}/{etag}/{os.path.basename(path)}"
            self.send_response(302)
        else:
            headers["Location"] = f"/api/resolve-cache/{kind}s/{name}/{commit}/{path}"
            self.send_response(307)
        for header, value in headers.items():
            self.send_header(header, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_small(self, kind: str, name: str, commit: str, path: str):
        repository = self.server.hub.repositories[kind, name]
        self.send_file("/" + path, (repository, path), {"X-Repo-Commit": commit})

    def find_in_storage(self, path: str):
        etag = path.split("/")[1]
        for repository in self.server.hub.repositories.values():
            for file in repository.files:
                if repository.etag(file) == etag:
                    return repository, file
        return None

    def send_file(self, path: str, found, headers=()):
        if found is None:
            return self.refuse(404, "", "Not Found")
        repository, file = found
        contents = repository.files[file]
        fault = self.server.hub.fault(path, self.command, of_body=True) or Fault("")
        if fault.change:
            contents = contents[:-1] + bytes([contents[-1] ^ 1])
        first, last = 0, len(contents) - 1
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and not fault.no_ranges:
            first, last = int(wanted.group(1)), min(last, int(wanted.group(2) or last))
            if first > last:
                return self.refuse(416, "", "Range Not Satisfiable")
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(contents)}")
        else:
            self.send_response(200)
        for header, value in dict(headers).items():
            self.send_header(header, value)
        self.send_header("ETag", f'"{repository.etag(file)}"')
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if self.command == "GET":
            self.send_body(contents[first : last + 1], fault)

    def send_body(self, body: bytes, fault: Fault):
        if fault.break_after >= 0:
            self.wfile.write(body[: fault.break_after])
            self.wfile.flush()
            # Resets the connection instead of closing it.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
        elif fault.stall_after >= 0:
            self.wfile.write(body[: fault.stall_after])
            self.wfile.flush()
            time.sleep(20)
        elif fault.bytes_a_second:
            piece = max(1, int(fault.bytes_a_second / 20))
            for begin in range(0, len(body), piece):
                try:
                    self.wfile.write(body[begin : begin + piece])
                    self.wfile.flush()
                except OSError:
                    return
                time.sleep(0.05)
        else:
            self.wfile.write(body)
