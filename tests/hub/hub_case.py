"""Common code of the hub tests: a fake hub on loopback, an empty cache, and the host running with
them."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import hub_server

HOST = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
GOLDEN = pathlib.Path("tests/golden").resolve()
MODEL = GOLDEN / "stages/model"


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class HubCase(unittest.TestCase):
    def setUp(self):
        self.hub = hub_server.FakeHub()
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cache, self.here = self.folder / "cache", self.folder
        # The environment without the user's token, proxy and cache settings.
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "SSL_CERT", "XDG_"))
            and not name.lower().endswith(("_proxy", "_ca_bundle"))
        }
        self.environment |= {
            "HF_ENDPOINT": self.hub.endpoint,
            "HF_HUB_CACHE": str(self.cache),
            "HOME": str(self.folder),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *words: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            [HOST, *words],
            cwd=self.here,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run_host(self, *words: str, code: int = 0, **environment: str) -> str:
        process = self.start(*words, **environment)
        said = process.communicate()[0]
        self.assertEqual(process.returncode, code, f"{words}: {said}")
        return said

    def locate(self, name: str, want: str = "model", code: int = 0, **environment: str) -> str:
        """The path that moonring.hub returns for a model, or its error message."""
        script = f'print((moonring.hub.locate("{name}", "{want}")))'
        said = self.run_host("-e", script, code=code, **environment)
        return said.splitlines()[-1] if code == 0 else said

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self, name: str, kind: str = "model") -> str:
        return self.hub.repositories[kind, name].revisions["main"]

    def forget(self) -> None:
        self.hub.requests.clear()
