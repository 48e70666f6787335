#!/usr/bin/env python3
"""Downloads from a hub: the requests, the contents of the cache afterwards, and errors."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import hub_case
import samples
from hub_server import TOKEN, Fault

PART = "model-00001-of-00002.safetensors"


class Layout(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        self.hub.add("model", "org/sharded", samples.SHARDED)

    def listing(self) -> dict:
        found = {}
        for path in sorted(self.cache.rglob("*")):
            name = str(path.relative_to(self.cache))
            if path.is_symlink():
                found[name] = {"link": os.readlink(path)}
            elif path.is_file():
                contents = path.read_bytes()
                if len(contents) <= 40:
                    found[name] = {"text": contents.decode()}
                else:
                    digest = hashlib.sha256(contents).hexdigest()
                    found[name] = {"bytes": len(contents), "sha256": digest}
        return found

    def recorded(self) -> dict:
        return json.loads((hub_case.GOLDEN / "hub/cache.json").read_text())

    def test_the_cache_is_as_huggingface_hub_makes_it(self):
        folder = self.locate("org/sharded")
        commit = self.commit("org/sharded")
        self.assertEqual(folder, f"{self.cache}/models--org--sharded/snapshots/{commit}")
        own = ("/.listing/", "/moonring.lock")
        ours = {n: e for n, e in self.listing().items() if not any(o in n for o in own)}
        theirs = {n: e for n, e in self.recorded().items() if ".no_exist" not in n}
        self.assertEqual(ours, theirs)
        asked = {r.path.split("/")[-1] for r in self.hub.requests if "resolve/" in r.path}
        self.assertEqual(asked, set(samples.SHARDED_WANTED))

    def test_a_cache_that_huggingface_hub_made_is_enough(self):
        contents = {hashlib.sha256(b).hexdigest(): b for b in samples.SHARDED.values()}
        for name, entry in self.recorded().items():
            path = self.cache / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if "link" in entry:
                path.symlink_to(entry["link"])
            elif "text" in entry:
                path.write_text(entry["text"])
            else:
                path.write_bytes(contents[entry["sha256"]])
        commit = self.commit("org/sharded")
        wanted = f"{self.cache}/models--org--sharded/snapshots/{commit}"
        self.assertEqual(self.locate("org/sharded"), wanted)
        self.assertEqual(self.locate("org/sharded", HF_HUB_OFFLINE="1"), wanted)
        self.assertEqual(self.hub.requests, [])
        # A file that is missing from the cache is reported, and only that file is downloaded.
        (self.cache / f"models--org--sharded/snapshots/{commit}/{PART}").unlink()
        (self.cache / f"models--org--sharded/blobs/{hub_sha(PART)}").unlink()
        said = self.locate("org/sharded", code=2, HF_HUB_OFFLINE="1")
        self.assertIn(f"without {PART}", said)
        self.assertIn("HF_HUB_OFFLINE", said)
        said = self.run_host("-e", 'moonring.hub.locate("org/sharded", "model")')
        self.assertIn(f"lacks {PART}", said)
        self.assertEqual(
            {r.path.split("/")[-1] for r in self.hub.asked("", where="storage")}, {PART}
        )

    def test_nothing_is_asked_again(self):
        first = self.locate("org/sharded")
        self.forget()
        self.assertEqual(self.locate("org/sharded"), first)
        self.assertEqual(self.locate("org/sharded", want="tokenizer"), first)
        self.assertEqual(self.hub.requests, [])
        # Another revision with the same files: nothing is downloaded again.
        repository = self.hub.repositories["model", "org/sharded"]
        repository.revisions["v1"] = "1" * 40
        script = 'print((moonring.hub.locate("org/sharded", "model", {model_revision = "v1"})))'
        self.assertTrue(self.run_host("-e", script).splitlines()[-1].endswith("1" * 40))
        self.assertEqual(self.hub.asked("", where="storage"), [])
        self.assertEqual((self.cache / "models--org--sharded/refs/v1").read_text(), "1" * 40)

    def test_parts_alone(self):
        folder = pathlib.Path(self.locate("org/sharded", want="config"))
        self.assertEqual(os.listdir(folder), ["config.json"])
        folder = pathlib.Path(self.locate("org/sharded", want="tokenizer"))
        self.assertFalse((folder / PART).exists())
        self.assertTrue((folder / "tokenizer.json").exists())

    def test_the_folders_that_the_environment_names(self):
        for named, place in (
            ({"HF_HOME": "home"}, "home/hub"),
            ({"XDG_CACHE_HOME": "xdg"}, "xdg/huggingface/hub"),
            ({}, ".cache/huggingface/hub"),
        ):
            more = {name: str(self.folder / value) for name, value in named.items()}
            folder = self.locate("org/sharded", want="config", HF_HUB_CACHE="", **more)
            self.assertEqual(folder.split("/models--")[0], str(self.folder / place))


def hub_sha(name: str) -> str:
    return hashlib.sha256(samples.SHARDED[name]).hexdigest()


class Token(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        self.hub.add("model", "org/private", samples.SHARDED, private=True)
        self.hub.add("model", "org/gated", samples.SHARDED, gated="open")
        self.hub.add("model", "org/closed", samples.SHARDED, gated="closed")

    def test_it_goes_to_the_hub_alone(self):
        self.locate("org/private", HF_TOKEN=TOKEN)
        self.assertEqual({r.token for r in self.hub.requests if r.where == "hub"}, {TOKEN})
        self.assertEqual({r.token for r in self.hub.requests if r.where == "storage"}, {""})

    def test_the_file_that_holds_it(self):
        self.write(".cache/huggingface/token", TOKEN + "\n")
        self.locate("org/private")
        self.write("elsewhere", "hf_other")
        said = self.locate("org/gated", code=2, HF_TOKEN_PATH=str(self.folder / "elsewhere"))
        self.assertIn("does not know the token of " + str(self.folder / "elsewhere"), said)
        said = self.locate("org/gated", code=2, HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        self.assertIn("is gated", said)

    def test_what_is_refused(self):
        for name, token, words in (
            ("org/private", "", ["no model 'org/private' at", "HF_TOKEN", "hf_hub_token"]),
            ("org/gated", "", ["is gated: accept its terms at", "/org/gated", "HF_TOKEN"]),
            ("org/closed", TOKEN, ["is gated", "as the user of the token of HF_TOKEN"]),
            ("org/private", "hf_wrong", ["does not know the token of HF_TOKEN"]),
            ("org/nothing", TOKEN, ["no model 'org/nothing' at", "token of HF_TOKEN may see"]),
        ):
            said = self.locate(name, code=2, HF_TOKEN=token)
            self.assertEqual(len(said.splitlines()), 1, said)
            for word in [f"model_name_or_path: no folder or file '{name}'", *words]:
                self.assertIn(word, said)


class Encrypted(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        self.hub.add("model", "org/sharded", samples.SHARDED)
        self.certificate, self.key = (str(self.folder / name) for name in ("c.pem", "k.pem"))
        words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", self.key, "-out", self.certificate]
        subprocess.run(words + names + files, check=True, stderr=subprocess.DEVNULL)

    def ask(self, code: int = 0, **environment: str) -> str:
        more = {"HF_ENDPOINT": self.hub.endpoint, "HF_TOKEN": TOKEN}
        return self.locate("org/sharded", code=code, **more, **environment)

    def test_certificates_are_checked(self):
        self.hub.encrypt(self.certificate, self.key, storage=True)
        said = self.ask(code=2)
        self.assertIn("self-signed certificate", said)
        self.assertEqual(self.hub.requests, [])
        self.ask(SSL_CERT_FILE=self.certificate)
        self.assertEqual({r.token for r in self.hub.asked("", where="storage")}, {""})

    def test_it_goes_to_no_address_without_encryption(self):
        self.hub.encrypt(self.certificate, self.key, storage=False)
        said = self.ask(code=2, REQUESTS_CA_BUNDLE=self.certificate)
        self.assertIn("leads to an address without encryption", said)
        self.assertEqual(self.hub.asked("", where="storage"), [])


class Faults(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        self.hub.add("model", "org/sharded", samples.SHARDED)

    def check_whole(self, folder: str) -> None:
        for name in samples.SHARDED_WANTED:
            self.assertEqual((pathlib.Path(folder) / name).read_bytes(), samples.SHARDED[name])
        blobs = os.listdir(self.cache / "models--org--sharded/blobs")
        self.assertEqual([name for name in blobs if name.endswith(".incomplete")], [])

    def test_a_broken_connection_goes_on_where_it_broke(self):
        self.hub.faults = [Fault(PART, break_after=100_000, times=2)]
        self.check_whole(self.locate("org/sharded"))
        ranges = [r.range for r in self.hub.asked(PART, where="storage")]
        self.assertEqual(len(ranges), 3)
        self.assertEqual(ranges[0], "")
        # The bytes of the last packets may have been lost with the connection.
        begin = [int(re.fullmatch(r"bytes=(\d+)-", r).group(1)) for r in ranges[1:]]
        self.assertTrue(0 < begin[0] <= 100_000 and begin[0] < begin[1] <= 200_000, ranges)

    def test_a_server_that_knows_no_ranges(self):
        self.hub.faults = [Fault(PART, break_after=50_000), Fault(PART, no_ranges=True)]
        self.check_whole(self.locate("org/sharded"))

    def test_a_download_that_stands_still(self):
        self.hub.faults = [Fault(PART, stall_after=50_000)]
        self.check_whole(self.locate("org/sharded", HF_HUB_DOWNLOAD_TIMEOUT="1"))

    def test_too_many_requests(self):
        self.hub.faults = [
            Fault("/revision/main", code=429, headers={"Retry-After": "0"}),
            Fault("config.json", method="HEAD", code=429, headers={"RateLimit": '"a";r=0;t=1'}),
            Fault(PART, code=503, headers={"Retry-After": "0"}, times=2),
        ]
        self.check_whole(self.locate("org/sharded"))
        self.hub.faults = [Fault("/revision/v2", code=429, headers={"Retry-After": "100000"})]
        script = 'moonring.hub.locate("org/sharded", "model", {model_revision = "v2"})'
        said = self.run_host("-e", script, code=2)
        self.assertIn("answers 429 (it fails): too many requests", said)

    def test_wrong_contents(self):
        self.hub.faults = [Fault(PART, change=True)]
        self.check_whole(self.locate("org/sharded"))
        # After two attempts the error is reported, and no part of the file is kept.
        self.hub.add("model", "org/other", {**samples.SHARDED, "config.json": b"{} \n"})
        self.hub.faults = [Fault("/config.json", change=True, times=2)]
        said = self.locate("org/other", code=2)
        self.assertIn("config.json: its checksum is", said.splitlines()[-1])
        self.locate("org/other")

    def test_what_was_there_is_wrong(self):
        blob = self.cache / f"models--org--sharded/blobs/{hub_sha(PART)}.incomplete"
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"x" * 1000)
        self.check_whole(self.locate("org/sharded"))
        self.assertEqual(
            [r.range for r in self.hub.asked(PART, where="storage")], ["bytes=1000-", ""]
        )

    def test_a_killed_download_is_gone_on_with(self):
        for how in (signal.SIGINT, signal.SIGKILL):
            name = f"org/n{int(how)}"
            contents = samples.filled(400_000, int(how))
            self.hub.add("model", name, {**samples.SHARDED, PART: contents})
            self.hub.faults = [Fault(PART, bytes_a_second=100_000)]
            process = self.start("-e", f'moonring.hub.locate("{name}", "model")')
            etag = hashlib.sha256(contents).hexdigest()
            blob = self.cache / f"models--org--n{int(how)}/blobs/{etag}.incomplete"
            while not blob.exists() or blob.stat().st_size < 20_000:
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(how)
            process.communicate()
            self.assertEqual(process.returncode, -how)
            there = blob.stat().st_size
            self.forget()
            folder = self.locate(name)
            self.assertEqual((pathlib.Path(folder) / PART).read_bytes(), contents)
            self.assertEqual(
                [r.range for r in self.hub.asked(PART, where="storage")], [f"bytes={there}-"]
            )

    def test_two_processes_download_once(self):
        self.hub.faults = [Fault(PART, bytes_a_second=200_000)]
        script = 'print((moonring.hub.locate("org/sharded", "model")))'
        both = [self.start("-e", script) for _ in range(2)]
        said = [process.communicate()[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        self.assertEqual(said[0].splitlines()[-1], said[1].splitlines()[-1])
        self.assertEqual(len(self.hub.asked(PART, where="storage")), 1)
        self.check_whole(said[0].splitlines()[-1])

    def test_a_disk_without_room(self):
        self.hub.faults = [Fault(PART, method="HEAD", size=10**17)]
        said = self.locate("org/sharded", code=1)
        self.assertIn("takes another 100000000.", said)
        self.assertIn("its disk has", said)

    def test_names_that_lead_out_are_refused(self):
        self.hub.add(
            "model",
            "org/bad",
            {
                "config.json": b"{}",
                "tokenizer.json": b"{}",
                "model.safetensors.index.json": b'{"weight_map": {"a": "../../../../x"}}',
            },
        )
        self.assertIn("is no name inside a folder", self.locate("org/bad", code=2))

    def test_what_a_hub_answers_is_no_path(self):
        """A hostile hub may choose the names of files, commits and contents: no file is written
        elsewhere."""
        keep = self.folder / "keep.json"
        keep.write_text("mine")
        repository = self.hub.add("model", "org/tiny", samples.SHARDED)
        up = "../" * 3
        for commit in (
            f"{up}keep",
            f"{up}keep.json\0",
            str(keep),
            f"{keep}\0",
            "main",
            "A" * 40,
            "a" * 39,
            "a" * 40 + "/x",
            "",
            "a" * 39 + "\x1b",
        ):
            repository.revisions["main"] = commit
            said = self.locate("org/tiny", code=2)
            self.assertIn("expected 40 hexadecimal digits", said)
            self.assertNotIn("\x1b", said)
        # The hub answers with a commit other than the requested one.
        repository.revisions = {"a" * 40: "b" * 40, "b" * 40: "b" * 40}
        script = 'moonring.hub.locate("org/tiny", "model", { model_revision = ("a"):rep(40) })'
        self.assertIn("was asked for, and it gives b", self.run_host("-e", script, code=2))
        for name in (f"{up}keep.json", str(keep), "a\0.json", "a//b", "./a", "\x1b[2J.json"):
            self.hub.add("model", "org/names", {**samples.SHARDED, name: b"{}"})
            said = self.locate("org/names", code=2)
            self.assertIn("is no name inside a folder", said)
            self.assertNotIn("\x1b", said)
        self.assertEqual(keep.read_text(), "mine")
        self.assertEqual(
            [p for p in self.cache.rglob("*") if p.is_file() and ".locks" not in p.parts], []
        )

    def test_descriptions_of_a_hub_read_nothing_outside(self):
        self.write("rows.json", '[{"instruction": "a", "output": "mine"}]')
        names = {"up": "../../../../rows.json", "away": str(self.folder / "rows.json")}
        info = {name: {"file_name": path} for name, path in names.items()}
        self.hub.add("dataset", "org/info", {"dataset_info.json": json.dumps(info).encode()})
        for name in names:
            said = self.run_host(
                "preprocess",
                f"model_name_or_path={hub_case.MODEL}",
                "dataset_dir=REMOTE:org/info",
                f"dataset={name}",
                "template=default",
                "out=out.jsonl",
                code=2,
            )
            self.assertIn("is no name inside a folder", said)
            self.assertNotIn("mine", said)

    def test_the_base_of_an_adapter_of_a_hub_is_no_path(self):
        config = {"peft_type": "LORA", "base_model_name_or_path": str(hub_case.MODEL)}
        files = {"adapter_config.json": json.dumps(config).encode()}
        files["adapter_model.safetensors"] = b"\x02\0\0\0\0\0\0\0{}"
        self.hub.add("model", "org/adapter", files)
        said = self.run_host("chat", "org/adapter", code=2)
        self.assertIn("is a path, and the adapter comes from a hub", said)

    def test_a_cache_whose_links_lead_out(self):
        self.hub.add("model", "org/tiny", samples.SHARDED)
        checkout = pathlib.Path(self.locate("org/tiny"))
        (checkout / "config.json").unlink()
        self.write("secret.json", "{}")
        (checkout / "config.json").symlink_to(self.folder / "secret.json")
        self.assertIn("leads out of", self.locate("org/tiny", code=2))


class Elsewhere(hub_case.HubCase):
    def test_one_message_each(self):
        self.hub.add("model", "Org/Tiny-Model-4B", samples.SHARDED)
        dead = "http://127.0.0.1:1"
        for name, environment, words in (
            (
                "org/Tiny-Model-4",
                {},
                ["no model 'org/Tiny-Model-4'", "(did you mean 'Org/Tiny-Model-4B'?)"],
            ),
            ("Org/Tiny-Model-4B", {"HF_ENDPOINT": dead}, ["cannot be had from " + dead]),
            (
                "Org/Tiny-Model-4B",
                {"HF_HUB_OFFLINE": "1"},
                ["HF_HUB_OFFLINE is set", str(self.cache)],
            ),
            ("Org/Tiny-Model-4B", {"TRANSFORMERS_OFFLINE": "yes"}, ["TRANSFORMERS_OFFLINE is set"]),
            (
                "Org/Tiny-Model-4B",
                {"USE_MODELSCOPE_HUB": "1"},
                ["USE_MODELSCOPE_HUB", "ModelScope"],
            ),
            ("Org/Tiny-Model-4B", {"USE_OPENMIND_HUB": "true"}, ["USE_OPENMIND_HUB", "OpenMind"]),
            ("Org/Tiny-Model-4B", {"HF_ENDPOINT": "ftp://x"}, ["is no address of http or https"]),
        ):
            said = self.locate(name, code=2, **environment)
            self.assertEqual(len(said.splitlines()), 1, said)
            for word in [f"no folder or file '{name}'", *words]:
                self.assertIn(word, said)
        script = 'moonring.hub.locate("Org/Tiny-Model-4B", "model", {model_revision = "v9"})'
        self.assertIn("has no revision 'v9' (model_revision)", self.run_host("-e", script, code=2))
        # An invalid name is rejected without a request to the hub.
        self.forget()
        for path in ("nothing", "a/b/c", "./a/b", "../a", "/a/b"):
            self.assertIn(f"no folder or file '{path}'", self.run_host("inspect", path, code=2))
        self.assertEqual(self.hub.requests, [])

    def test_under_the_sandbox(self):
        self.hub.add("model", "org/tiny", hub_case.files_of(hub_case.MODEL))
        said = self.run_host("--sandbox", "inspect", "org/tiny", code=2)
        self.assertIn("--sandbox: nothing is downloaded", said)
        self.assertIn("is outside of the roots", self.sandboxed("/usr", code=2))
        self.assertEqual(self.hub.requests, [])
        self.locate("org/tiny")
        self.forget()
        self.assertIn("parameters", self.sandboxed(str(self.cache)))
        self.assertEqual(self.hub.requests, [])

    def sandboxed(self, root: str, code: int = 0) -> str:
        self.here = self.folder / "work"
        self.here.mkdir(exist_ok=True)
        words = ["--sandbox-root", ".", "--sandbox-root", root, "inspect", "org/tiny"]
        return self.run_host(*words, code=code)

    def test_a_machine_without_libcurl(self):
        self.hub.add("model", "org/sharded", samples.SHARDED)
        for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            self.write(f"lib/{name}", "no library")
        without = {"LD_LIBRARY_PATH": str(self.folder / "lib")}
        self.run_host("version", **without)
        said = self.locate("org/sharded", code=2, **without)
        self.assertIn("http and https are spoken by libcurl (libcurl.so.4", said)
        folder = self.locate("org/sharded")
        self.assertEqual(self.locate("org/sharded", **without), folder)

    def test_gguf_files(self):
        files = {
            f"tiny-{kind}.gguf": samples.filled(1000, i) for i, kind in enumerate(("Q8_0", "F16"))
        }
        self.hub.add("model", "org/tiny-gguf", files)
        for part in ("Q8_0", "q8_0", "tiny-Q8_0.gguf"):
            place = self.locate("org/tiny-gguf:" + part)
            self.assertTrue(place.endswith("/tiny-Q8_0.gguf"), place)
        self.assertFalse(os.path.exists(os.path.dirname(place) + "/tiny-F16.gguf"))
        said = self.locate("org/tiny-gguf", code=2)
        self.assertIn("several .gguf files", said)
        self.assertIn("tiny-F16.gguf, tiny-Q8_0.gguf", said)


if __name__ == "__main__":
    unittest.main()
