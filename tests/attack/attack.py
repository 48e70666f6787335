#!/usr/bin/env python3
"""Runs the host on broken, unusual or hostile input, and checks how each run ends.

usage: attack.py [--host PATH] [--parts PART,..] [--seed N] [--share F] [--jobs N]

A run may end with success (0), or with exit code 1 or 2 and one message ("moonring: ..."; with
several ranks one message each), within the time limit. Anything else is a failure: a crash, a hang,
no message, or a message with C++ internals or a Lua traceback. Prints a table with a line for each
part, and the failures; exits with 1 if there are any.

  flips      each file of a model, a data set, a configuration, an adapter and a checkpoint: cut
             short, or with bytes changed
  values     each key of `moonring help train` with 0, -1, a huge number, NaN, infinity, an empty
             text, null, a list, a table, a path that does not exist
  pipes      FIFOs, sockets, devices, folders and nothing in place of each of those files
  strangers  another program that connects to all ports of the ranks, from their start on, and sends
             arbitrary data
  signals    SIGINT, SIGTERM, SIGHUP to runs started in each way: the exit code matches the signal,
             and there is a checkpoint
  lock       two runs that write into one output_dir

--share 0.1 runs a tenth of the cases, selected by --seed.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGES = os.path.join(ROOT, "tests", "golden", "stages")
LIMIT = 300  # seconds; only a run that hangs takes this long
MEMORY = 24 << 30  # bytes of a run's address space: huge numbers must not exhaust the machine
INNARDS = (
    "terminate called",
    "Exception raised",
    "frame #",
    "std::",
    "c10::",
    "stack traceback",
    "attempt to ",
    "bad argument #",
    "Assertion",
)
CONFIG = """\
model_name_or_path: model
stage: sft
do_train: true
finetuning_type: lora
dataset: talks
dataset_dir: data
template: chatml
cutoff_len: 160
output_dir: out
overwrite_output_dir: true
max_steps: 1
logging_steps: 1
per_device_train_batch_size: 2
report_to: none
"""
HUGE = "99999999999999999999"
VALUES = ("0", "-1", HUGE, ".nan", ".inf", "''", "null", "[1, 2]", "{a: 1}", "x/y")
ENDLESS = {("max_steps", HUGE), ("max_steps", ".inf")}  # valid, but the run never ends

Ended = collections.namedtuple("Ended", "code err")


class Place:
    """A folder with a model, an adapter, data and a configuration; deleted at the end."""

    def __init__(self, host):
        self.host, self.folder = host, tempfile.mkdtemp(prefix="moonring_attack_")
        for name in ("model", "data", "adapter"):
            shutil.copytree(
                os.path.join(STAGES, name), self.path(name), copy_function=shutil.copyfile
            )
        self.write("config.yaml", CONFIG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def files(self, *folders):
        return [
            os.path.relpath(os.path.join(parent, name), self.folder)
            for folder in folders
            for parent, _, names in sorted(os.walk(self.path(folder)))
            for name in sorted(names)
        ]

    def start(self, *words):
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        return subprocess.Popen(
            [self.host, *words],
            cwd=self.folder,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=limits,
        )

    def wait(self, process):
        try:
            err = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Ended("hang", process.communicate()[1])
        return Ended(process.returncode, err)

    def run(self, *words):
        return self.wait(self.start(*words))

    def await_step(self, process):
        """Waits until a run has logged a step, or has ended."""
        log, end = self.path("out", "trainer_log.jsonl"), time.time() + LIMIT
        while process.poll() is None and time.time() < end:
            if os.path.exists(log) and os.path.getsize(log):
                return
            time.sleep(0.05)


def messages(err):
    return [line for line in err.splitlines() if line.startswith("moonring: ")]


def fault(ended, ranks=1):
    """Returns the failure of a run that has ended, or None."""
    end = ended.err[-300:]
    if ended.code not in (0, 1, 2):
        return f"exit code {ended.code}: {end}"
    said = len(messages(ended.err))
    if said > ranks or ended.code != 0 and said == 0:
        return f"exit code {ended.code}, {said} messages: {end}"
    for words in INNARDS:
        if words in ended.err:
            return f"says '{words}': {end}"
    return None


# The cases of each part, as (description, function). The function gets a folder, and returns how
# the run ended and its failure.


# The beginning of a file determines how the rest is read, so half of the changes are there.
def damaged(data, how, rng):
    if how == "cut":
        return data[: rng.choice((0, 1, len(data) // 2, max(0, len(data) - 1)))]
    data = bytearray(data)
    for _ in range(rng.choice((1, 3)) if data else 0):
        at = rng.randrange(min(len(data), 512) if rng.random() < 0.5 else len(data))
        data[at] = rng.choice((0, 0xFF, data[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    return data


def flips(options):
    rng = random.Random(options.seed)
    saving = ("train", "config.yaml", "max_steps=2", "save_steps=1")

    def attempt(file, how, seed):
        def run(place):
            words = ["train", "config.yaml", "adapter_name_or_path=adapter"]
            if file.startswith("out"):
                saved = place.run(*saving)
                if saved.code != 0:
                    return saved, f"no checkpoint: {saved.err[-300:]}"
                words = ["train", "config.yaml", "max_steps=3", "resume_from_checkpoint=true"]
            with open(place.path(file), "rb") as source:
                data = source.read()
            with open(place.path(file), "wb") as target:
                target.write(damaged(data, how, random.Random(seed)))
            ended = place.run(*words)
            return ended, fault(ended)

        return f"{file} ({how}, seed {seed})", run

    with Place(options.host) as place:
        place.run(*saving)
        names = ["config.yaml", *place.files("model", "data", "adapter", "out/checkpoint-2")]
    return [
        attempt(name, how, rng.randrange(1 << 30))
        for name in names
        for how in ("cut",) * 2 + ("bytes",) * 4
    ]


def values(options):
    listed = subprocess.run(
        [options.host, "help", "train"], capture_output=True, text=True, check=True
    ).stdout
    keys = re.findall(r"^  (\w+) +(?:string|int|float|bool|list|any) ", listed, re.MULTILINE)

    def attempt(key, value):
        def run(place):
            rest = re.sub(f"^{key}:.*\n", "", CONFIG, flags=re.MULTILINE)
            place.write("config.yaml", rest + f"{key}: {value}\n")
            ended = place.run("train", "config.yaml")
            return ended, fault(ended, ranks=2)

        return f"{key}: {value}", run

    return [attempt(key, value) for key in keys for value in VALUES if (key, value) not in ENDLESS]


def pipes(options):
    def attempt(file, kind):
        def run(place):
            path = place.path(file)
            place.write("own.lua", 'return { like = "chatml" }')
            os.rename(path, path + ".kept")
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "folder":
                os.mkdir(path)
            elif kind == "socket":
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(path)
            else:
                os.symlink(kind, path)
            ended = place.run(
                "train", "config.yaml", "template=./own.lua", "adapter_name_or_path=adapter"
            )
            return ended, fault(ended)

        return f"{file} is {kind}", run

    with Place(options.host) as place:
        names = ["config.yaml", "own.lua", *place.files("model", "data", "adapter")]
    kinds = ("fifo", "folder", "socket", "/dev/zero", "/dev/null", "/nowhere")
    return [attempt(name, kind) for name in names for kind in kinds]


def ports_of(session):
    """TCP ports on which processes of a session listen."""
    inodes = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) != session:
                continue
            for name in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        except OSError:
            continue
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in list(table)[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


class Stranger:
    """A thread that repeatedly connects to all ports of a session."""

    def __init__(self, session, kind, rng):
        self.session, self.kind, self.rng = session, kind, rng
        self.callers, self.made = collections.deque(maxlen=200), collections.Counter()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.stop.is_set():
            for port in ports_of(self.session):
                try:
                    caller = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                    self.made["let in"] += 1
                    self.callers.append(caller)
                    caller.sendall(self.words())
                except OSError:
                    self.made["kept out"] += 1

    def words(self):
        if self.kind == "silent":
            return b""
        noise = self.rng.randbytes(56)
        if self.kind == "numbers":  # as Gloo does first
            return self.rng.randrange(4).to_bytes(8, "little") + noise
        return noise

    def end(self):
        self.stop.set()
        self.thread.join()
        for caller in self.callers:
            caller.close()
        return dict(self.made)


def strangers(options):
    def attempt(kind, seed):
        def run(place):
            process = place.start(
                "-n",
                "2",
                "train",
                "config.yaml",
                "sequence_parallel_size=2",
                "max_steps=20",
                "ddp_timeout=60",
            )
            stranger = Stranger(process.pid, kind, random.Random(seed))
            ended = place.wait(process)
            print(
                f"  {kind}: exit code {ended.code}; connections: {stranger.end()}; "
                f"{messages(ended.err)[:1]}",
                flush=True,
            )
            return ended, fault(ended, ranks=2)

        return f"a stranger that sends {kind} (seed {seed})", run

    return [attempt(kind, seed) for seed in range(6) for kind in ("silent", "garbage", "numbers")]


LONG = ("max_steps=100000", "save_steps=50000")


def signals(options):
    ways = {
        "one rank": ["train", "config.yaml"],
        "-n 2": ["-n", "2", "train", "config.yaml"],
        "sp 2": ["train", "config.yaml", "sequence_parallel_size=2"],
    }

    def attempt(way, number):
        def run(place):
            process = place.start(*ways[way], *LONG)
            place.await_step(process)
            process.send_signal(number)
            ended = place.wait(process)
            names = os.listdir(place.path("out"))
            saved = any(re.fullmatch(r"checkpoint-\d+", name) for name in names)
            if ended.code in (-number, 128 + number) and saved:
                return Ended(f"signal {number}", ended.err), None
            what = "a checkpoint" if saved else "no checkpoint"
            return ended, f"exit code {ended.code}, {what}: {ended.err[-300:]}"

        return f"signal {number} to {way}", run

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [attempt(way, int(number)) for way in ways for number in numbers]


def lock(options):
    def run(place):
        first = place.start("train", "config.yaml", *LONG)
        place.await_step(first)
        second = place.run("train", "config.yaml")
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        third = place.run("train", "config.yaml")  # the lock of a killed run is released
        wrong = fault(second) or fault(third)
        if not wrong and (second.code == 0 or third.code != 0):
            wrong = f"the second run: {second.code}; one after the first's death: {third.code}"
        return second, wrong

    return [(f"two runs into one folder ({number})", run) for number in range(2)]


PARTS = {
    "flips": flips,
    "values": values,
    "pipes": pipes,
    "strangers": strangers,
    "signals": signals,
    "lock": lock,
}
ALONE = ("strangers", "signals", "lock")  # parts whose cases do not run concurrently


def make_tries(name, options):
    """Counts how the cases of a part ended, and collects failures."""
    tries = PARTS[name](options)
    if options.share < 1:
        some = max(1, round(options.share * len(tries)))
        tries = random.Random(options.seed).sample(tries, some)

    def attempt(run):
        with Place(options.host) as place:
            return run(place)

    codes, wrong, start = collections.Counter(), [], time.time()
    with concurrent.futures.ThreadPoolExecutor(1 if name in ALONE else options.jobs) as pool:
        for (what, _), (ended, why) in zip(tries, pool.map(attempt, [run for _, run in tries])):
            codes[ended.code] += 1
            if why:
                wrong.append(what)
                print(f"  WRONG {what}: {why}", flush=True)
    seconds = time.time() - start
    print(f"{name}: {len(tries)} tries, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
    return codes, wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default=os.path.join(ROOT, "bazel-bin", "moonring"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    # Processes inherit ignored signals, for example from nohup or from a script's background jobs.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    options.host = os.path.abspath(options.host)
    results = {name: make_tries(name, options) for name in options.parts.split(",")}
    print("\n| part | tries | ended as | wrong |\n|---|---|---|---|")
    for name, (codes, wrong) in results.items():
        ended = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str))
        print(f"| {name} | {sum(codes.values())} | {ended} | {len(wrong)} |")
    return 1 if any(wrong for _, wrong in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
