"""Writes cache.json: the cache that huggingface_hub (0.36.2) creates for the model of
tests/hub/samples.py, downloaded from a small hub on loopback.

    ~/.cache/moonring-oracle/venv/bin/python tests/golden/hub/make_cache.py
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "hub"))
import hub_server
import samples


def entry(path: pathlib.Path):
    """Describes a file: a link's target, a small text's contents, or a blob's size and checksum."""
    if path.is_symlink():
        return {"link": os.readlink(path)}
    contents = path.read_bytes()
    if len(contents) <= 40:
        return {"text": contents.decode()}
    return {"bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()}


def listing(cache: pathlib.Path) -> dict:
    return {
        str(path.relative_to(cache)): entry(path)
        for path in sorted(cache.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def main() -> None:
    with hub_server.FakeHub() as hub, tempfile.TemporaryDirectory() as cache:
        hub.add("model", "org/sharded", samples.SHARDED)
        os.environ.update(HF_ENDPOINT=hub.endpoint, HF_HUB_CACHE=cache, HF_HUB_DISABLE_XET="1")
        import huggingface_hub

        for name in samples.SHARDED_WANTED:
            huggingface_hub.hf_hub_download("org/sharded", name)
        try:  # Transformers also requests optional files
            huggingface_hub.hf_hub_download("org/sharded", "added_tokens.json")
        except huggingface_hub.errors.EntryNotFoundError:
            pass
        recorded = listing(pathlib.Path(cache))
    path = HERE / "cache.json"
    path.write_text(json.dumps(recorded, indent=1) + "\n")
    print(path.read_text())


main()
