#!/usr/bin/env python3
"""Measures tokens per second of two hosts of two ranks over several links, for the table in
docs/cluster.md. By hand, if possible on an otherwise idle machine, unlike the one of that table:

  MOONRING_TEST_HOST=bazel-bin/moonring python3 tests/cluster/measure_links.py MODEL DATA

MODEL: a folder or GGUF file; DATA: a text file. The kernel of a small machine may lack netem, so
latency is made by a relay between two TAP devices, which holds each frame back.
"""

import collections
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import threading
import time

import hosts
from cluster_case import HOST, Rank

CONFIG = """\
model_name_or_path: {model}
dataset_dir: data
dataset: text
stage: pt
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 1.0e-5
max_steps: 40
logging_steps: 1
save_strategy: "no"
report_to: none
overwrite_output_dir: true
output_dir: out
finetuning_type: full
"""
KINDS = {
    "sp within a host": ["sequence_parallel_size=2"],
    "sp over both, zigzag-ring": ["sequence_parallel_size=4"],
    "sp over both, ulysses": ["sequence_parallel_size=4", "sequence_parallel_mode=ulysses"],
}
TUNSETIFF, TAP, NO_HEADER = 0x400454CA, 2, 0x1000


def tap_of(host: hosts.Host) -> int:
    """Opens a TAP device on the host in place of its interface."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, there = (
        os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid in ("self", host.keeper.pid)
    )
    libc.setns(there, 0)
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22s", b"slow0", TAP | NO_HEADER, b""))
    libc.setns(here, 0)
    for words in (
        ["ip", "link", "set", hosts.INTERFACE, "down"],
        ["ip", "address", "flush", "dev", hosts.INTERFACE],
        ["ip", "address", "add", f"{host.address}/24", "dev", "slow0"],
        ["ip", "link", "set", "slow0", "mtu", "9000", "up"],
    ):
        hosts.call(*host.inside(*words))
    return tap


def relay(source: int, sink: int, delay: float) -> None:
    frames = collections.deque()
    came = threading.Condition()

    def send():
        while True:
            with came:
                came.wait_for(lambda: frames)
                due, frame = frames.popleft()
            time.sleep(max(0, due - time.monotonic()))
            os.write(sink, frame)

    threading.Thread(target=send, daemon=True).start()
    while True:
        frame = os.read(source, 65536)
        with came:
            frames.append((time.monotonic() + delay, frame))
            came.notify()


def tokens_per_second(network: hosts.Network, folder: pathlib.Path, words: list[str]) -> str:
    ranks = []
    for rank in range(4):
        host = network.hosts[rank // 2]
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2))
        environment |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
        command = host.inside("env", f"--chdir={folder}", HOST, "train", "config.yaml", *words)
        ranks.append(Rank(command, folder, environment | {"OMP_NUM_THREADS": "1"}))
    if any([rank.end() for rank in ranks]):
        return ranks[0].said[-300:]
    lines = [line for line in ranks[0].said.splitlines() if line.startswith("step ")]
    rates = [float(line.split(" tokens/s")[0].split()[-1]) for line in lines[1:]]
    return f"{sorted(rates)[len(rates) // 2]:.0f}"


def main(words: list[str]) -> None:
    model, text = (pathlib.Path(word).resolve() for word in words)
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "data").mkdir()
    shutil.copy(text, folder / "data/text.txt")
    described = {"text": {"file_name": "text.txt", "columns": {"prompt": "text"}}}
    (folder / "data/dataset_info.json").write_text(json.dumps(described))
    (folder / "config.yaml").write_text(CONFIG.format(model=model))
    for link in ("not limited", "1gbit", "100mbit", "10 ms"):
        network = hosts.Network()
        if "bit" in link:
            network.limit(link)
        if "ms" in link:
            first, second = map(tap_of, network.hosts)
            for pair in ((first, second), (second, first)):
                threading.Thread(target=relay, args=(*pair, 0.005), daemon=True).start()
        for kind, more in KINDS.items():
            print(link, "|", kind, "|", tokens_per_second(network, folder, more), flush=True)
        network.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    hosts.enter()
    main(sys.argv[1:])
