#!/usr/bin/env python3
"""Records the requests of a client program:

    record.py --url http://127.0.0.1:8000 --key tml-... --out recorded/tinker_0.38.0.jsonl -- \\
        FOLDER/newest/bin/python clients/older.py --model NAME

The program gets the address of a proxy, which passes its requests to the server and writes them
down in their order: method, path, headers, body, and the ids of the answer. What a client repeats
until it is answered, or sends at times of its own (polls, heartbeats, telemetry), is left out.
service_test.py replays the file against a server that knows none of these ids.
"""

import argparse
import base64
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse

LEFT_OUT = ("retrieve_future", "session_heartbeat", "telemetry", "dynamic_config", "/finish")
OWN_HEADERS = {"host", "content-length", "connection", "x-api-key", "transfer-encoding"}
IDS = ("session_id", "model_id", "sampling_session_id", "path", "request_id")


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = urllib.parse.urlsplit(url)
        self.lines: list[dict] = []
        self.results: dict[str, dict] = {}
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def pass_on(self) -> None:
        body = self.read_body()
        line = {
            "method": self.command,
            "path": self.path,
            "headers": {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in OWN_HEADERS
            },
            "body": base64.b64encode(body).decode(),
        }
        kept = not any(word in self.path for word in LEFT_OUT)
        with self.server.lock:
            if kept:
                self.server.lines.append(line)
        target = self.server.target
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=120)
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("host", "connection", "transfer-encoding", "content-length")
        }
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        kind = answer.headers.get("Content-Type", "")
        if "json" in kind:
            ids = {name: json.loads(data)[name] for name in IDS if name in json.loads(data)}
            if kept:
                line["answer"] = ids
            elif "retrieve_future" in self.path:
                self.server.results[json.loads(body)["request_id"]] = ids
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_PUT = pass_on


def main() -> None:
    place = sys.argv.index("--")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args(sys.argv[1:place])
    proxy = Proxy(options.url)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    environment = os.environ | {
        "TINKER_BASE_URL": f"http://127.0.0.1:{proxy.server_address[1]}",
        "TINKER_API_KEY": options.key,
    }
    subprocess.run(sys.argv[place + 1 :], env=environment, check=True)
    for line in proxy.lines:
        # The ids in the result of a promise belong to the request.
        request = line.get("answer", {}).pop("request_id", None)
        line["answer"] = line.get("answer", {}) | proxy.results.get(request, {})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("".join(json.dumps(line) + "\n" for line in proxy.lines))
    print(f"{options.out}: {len(proxy.lines)} requests")


if __name__ == "__main__":
    main()
