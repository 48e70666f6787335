"""Tests that Moonring and Python's huggingface_hub can share a cache: each finds the other's
downloads and continues its unfinished ones, from a small hub on loopback.

    ~/.cache/moonring-oracle/venv/bin/python tests/peers/hub_cache.py [bazel-bin/moonring]
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/hub"))
import hub_server
import samples

HOST = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT / "bazel-bin/moonring")
MODEL = ROOT / "tests/golden/stages/model"
PART = "model-00001-of-00002.safetensors"


def host(script: str, **environment: str) -> str:
    done = subprocess.run(
        [HOST, "-e", script],
        env=os.environ | {"HF_HUB_OFFLINE": "0"} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def locate(name: str, **environment: str) -> str:
    return host(f'print((moonring.hub.locate("{name}", "model")))', **environment)


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def main() -> None:
    hub = hub_server.FakeHub().__enter__()
    cache = pathlib.Path(tempfile.mkdtemp())
    os.environ.update(
        HF_ENDPOINT=hub.endpoint, HF_HUB_CACHE=str(cache), HF_HUB_DISABLE_XET="1", HF_TOKEN=""
    )
    tiny = {p.name: p.read_bytes() for p in MODEL.iterdir()}
    # Large enough to be cut off: huggingface_hub writes 10 MB at a time.
    large = {**samples.SHARDED, PART: samples.filled(30_000_000, 7)}
    for name, files in (("sharded", samples.SHARDED), ("tiny", tiny), ("cut", large)):
        hub.add("model", f"org/{name}", files)
    offline = {"HF_HUB_OFFLINE": "1"}

    place = locate("org/tiny")
    opened = python(
        "import transformers as t; m = t.AutoModelForCausalLM.from_pretrained('org/tiny');"
        "print(len(t.AutoTokenizer.from_pretrained('org/tiny')), m.num_parameters())",
        **offline,
    )
    print("Transformers opens what Moonring downloaded:", opened)
    found = python("import huggingface_hub as h; print(h.snapshot_download('org/tiny'))", **offline)
    assert found == place, (found, place)
    scanned = python(
        "import huggingface_hub as h; i = h.scan_cache_dir();"
        "print([r.repo_id for r in i.repos], i.warnings)"
    )
    print("scan_cache_dir:", scanned)
    assert scanned.endswith("[]"), scanned

    place = python("import huggingface_hub as h; print(h.snapshot_download('org/sharded'))")
    hub.requests.clear()
    assert locate("org/sharded", **offline) == place and locate("org/sharded") == place
    assert hub.requests == []
    print("Moonring opens what huggingface_hub downloaded:", place)

    # Each program continues the other's unfinished download.
    etag = hashlib.sha256(large[PART]).hexdigest()
    for first, second in ((host_cut, python_whole), (python_cut, host_whole)):
        shutil.rmtree(cache / "models--org--cut", ignore_errors=True)
        blob = cache / f"models--org--cut/blobs/{etag}"
        hub.faults = [hub_server.Fault(PART, bytes_a_second=8_000_000)]
        process = first()
        part = pathlib.Path(f"{blob}.incomplete")
        while not part.exists() or part.stat().st_size < 30_000:
            assert process.poll() is None
            threading.Event().wait(0.02)
        process.kill()
        process.wait()
        there = part.stat().st_size
        hub.requests.clear()
        second()
        ranges = [r.range for r in hub.asked(PART, where="storage")]
        assert ranges == [f"bytes={there}-"], (ranges, there)
        assert blob.read_bytes() == large[PART]
        print(f"{second.__name__}: resumed at byte {there}")

    # Both programs at the same time: the file is downloaded once.
    shutil.rmtree(cache / "models--org--cut")
    hub.requests.clear()
    hub.faults = [hub_server.Fault(PART, bytes_a_second=8_000_000)]
    process = python_cut()
    host_whole()
    process.wait()
    assert len(hub.asked(PART, where="storage")) == 1, hub.asked(PART)
    print("both at once: each file came once")
    shutil.rmtree(cache)


def host_cut() -> subprocess.Popen:
    script = 'moonring.hub.locate("org/cut", "model")'
    return subprocess.Popen([HOST, "-e", script], stderr=subprocess.DEVNULL)


def python_cut() -> subprocess.Popen:
    code = f"import huggingface_hub as h; h.hf_hub_download('org/cut', '{PART}')"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)


def host_whole() -> None:
    locate("org/cut")


def python_whole() -> None:
    python(f"import huggingface_hub as h; h.hf_hub_download('org/cut', '{PART}')")


main()
