#!/usr/bin/env python3
"""kill -9 of the server at random moments of a training loop, and the client continues.

    kill_minus_nine.py --model DIR --kills 20 -- moonring serve DIR port={port} output_dir={out} \\
        api_key={key}

The loop (forward_backward, optim_step, sample, save) runs twice: undisturbed, and with a server
that is killed and started again by the same line. Both must give the same numbers, bit for bit,
and the SDK's log of the second must not have an exception.
"""

import os
import pathlib
import random
import sys
import tempfile
import threading
import time

# The SDK's reports about itself are lost while the server is away, which it logs.
os.environ["TINKER_TELEMETRY"] = "0"

import connection
import datums
import tinker
from server import Server

KEY = "tml-kill-minus-nine"


def loop(options, url: str) -> list:
    """All numbers that the client sees."""
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    client = connection.create(service, options, seed=1)
    seen = []
    for step in range(options.steps):
        batch = datums.answers(step, 3, options.length, options.vocabulary)
        output = client.forward_backward(batch[:2], "cross_entropy")
        more = client.forward_backward(batch[2:], "cross_entropy")
        taken = client.optim_step(tinker.AdamParams(learning_rate=2e-3))
        seen += [output.result().metrics["loss:sum"], more.result().metrics["loss:sum"]]
        seen += [values.tolist() for values in datums.log_probs(output.result())]
        taken.result()
        if step % 3 == 1:
            sampler = client.save_weights_and_get_sampling_client().result()
            prompt = tinker.ModelInput.from_ints(datums.tokens(step, 6, options.vocabulary))
            drawn = [
                sampler.sample(prompt, 2, tinker.SamplingParams(max_tokens=10, seed=seed, stop=[]))
                for seed in range(3)
            ]
            for one in drawn:
                for sequence in one.result().sequences:
                    seen += [list(sequence.tokens), list(sequence.logprobs)]
        if step % 5 == 4:
            client.save_state("rolling", overwrite=True).result()
    probe = [datums.unweighted(datums.tokens(99, options.length, options.vocabulary))]
    final = client.forward(probe, "cross_entropy").result()
    return seen + [values.tolist() for values in datums.log_probs(final)]


class Killer:
    """Kills the server at random moments, in a thread, and starts it again at once."""

    def __init__(self, server: Server, kills: int, every: float, seed: int):
        self.server, self.kills, self.every = server, kills, every
        self.random, self.done, self.ended = random.Random(seed), 0, threading.Event()
        self.waits: list[float] = []
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            while self.done < self.kills:
                if self.ended.wait(self.random.uniform(0, 2 * self.every)):
                    return
                self.server.kill()
                self.done += 1
                began = time.monotonic()
                self.server.start()
                # Some kills come before the server has read its journal.
                if self.done % 4:
                    self.server.wait()
                    self.waits.append(time.monotonic() - began)
        except Exception as error:
            self.failure = error


def main() -> None:
    place = sys.argv.index("--")
    parser = connection.arguments(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(sys.argv[1:place])
    line = sys.argv[place + 1 :]
    records = connection.LogRecords()

    with tempfile.TemporaryDirectory() as folder:
        server = Server(line, pathlib.Path(folder, "undisturbed"), KEY)
        server.start()
        server.wait()
        began = time.monotonic()
        expected = loop(options, server.url)
        undisturbed = time.monotonic() - began
        code = server.stop()
        assert code in (0, 128 + 15, -15), f"ended by SIGTERM with {code}: {server.tail()}"

        server = Server(line, pathlib.Path(folder, "killed"), KEY)
        server.start()
        server.wait()
        # The sum of the times between kills is less than that of an undisturbed loop.
        every = 0.7 * undisturbed / options.kills
        killer = Killer(server, options.kills, every, options.seed)
        began = time.monotonic()
        killer.thread.start()
        try:
            found = loop(options, server.url)
        except Exception:
            sys.stderr.write(server.tail())
            raise
        finally:
            killer.ended.set()
            killer.thread.join()
            server.stop()
        took = time.monotonic() - began
        if killer.failure:
            raise killer.failure

    assert killer.done > options.kills / 2, f"the loop ended after {killer.done} kills"
    differ = [place for place, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]]
    assert len(found) == len(expected) and not differ, (
        f"{len(differ)} of {len(expected)} results differ, first {differ[:1]}"
    )
    assert not records.exceptions(), records.exceptions()
    connection.report(
        kills=killer.done,
        starts=server.starts,
        seconds_undisturbed=undisturbed,
        seconds=took,
        seconds_of_starts=killer.waits,
        results=len(expected),
    )


if __name__ == "__main__":
    main()
