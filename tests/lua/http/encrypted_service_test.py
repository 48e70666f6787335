#!/usr/bin/env python3
"""Tests a reward from an HTTPS service: its certificate is checked, the posted data are sent
nowhere else, and addresses of this machine are called without the environment's proxy."""

import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

HOST = os.path.abspath("moonring")
SCRIPT = """
  local scores, why = moonring.rewards.open { url = { url = "%s", retries = 0, timeout = 60 } }
    :score { prompts = { "p", "q" }, completions = { "one", "three" } }
  print(why or table.concat(scores[1].values, " "))
"""


class Scores(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Content-Type"], json.loads(body)))
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/score")
            self.end_headers()
            return
        answer = json.dumps([len(each) for each in json.loads(body)["completions"]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class EncryptedService(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.certificate, key = str(folder / "c.pem"), str(folder / "k.pem")
        words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", key, "-out", self.certificate]
        subprocess.run(words + names + files, check=True, stderr=subprocess.DEVNULL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scores)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.asked = []
        self.url = f"https://localhost:{self.server.server_port}"
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, path: str, **environment: str) -> str:
        mine = {name: value for name, value in os.environ.items() if "SSL_CERT" not in name}
        done = subprocess.run(
            [HOST, "-e", SCRIPT % (self.url + path)],
            env=mine | environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_it_scores(self):
        self.assertEqual(self.ask("/score?a=b", SSL_CERT_FILE=self.certificate), "3 5")
        body = {"completions": ["one", "three"], "prompts": ["p", "q"]}
        self.assertEqual(self.server.asked, [("/score?a=b", "application/json", body)])

    def test_its_certificate_is_checked(self):
        said = self.ask("/score")
        self.assertIn(f"FAILED_PRECONDITION: reward 'url' ({self.url}/score): {self.url}: ", said)
        self.assertIn("certificate", said)
        self.assertEqual(self.server.asked, [])

    def test_it_leads_nowhere_else(self):
        said = self.ask("/elsewhere", SSL_CERT_FILE=self.certificate)
        self.assertIn("ABORTED: reward 'url'", said)
        self.assertIn("it says 302 Found", said)
        self.assertEqual([path for path, _, _ in self.server.asked], ["/elsewhere"])

    def test_no_proxy_is_between(self):
        proxy = "http://127.0.0.1:1"  # nothing listens there
        said = self.ask("/score", SSL_CERT_FILE=self.certificate, https_proxy=proxy)
        self.assertEqual(said, "3 5")


if __name__ == "__main__":
    unittest.main()
