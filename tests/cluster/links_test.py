#!/usr/bin/env python3
"""Runs on two hosts of two ranks each (hosts.py): over a slow link, a link that is cut for a moment
or for good, and with folders that the hosts do not share. What each rank says, with which exit code
it ends, and that a resumed run equals one that was never interrupted.

Needs root or unprivileged user namespaces, and iproute2: without them it fails and says so. No case
asserts how long something takes; what hangs reaches the test's limit.
"""

import time
import unittest

import hosts
from cluster_case import CONFIG, HOST, ClusterCase, Rank

RANKS = range(4)
PORT = "29500"  # the hosts' ports are their own
ENDLESS = "max_steps=1000000"
AGAIN = "overwrite_output_dir=true"
# Frames that are dropped for this long delay a run; TCP sends them again.
MOMENT = 3


class Hosts(ClusterCase):
    def setUp(self):
        super().setUp()
        self.network = hosts.Network()
        self.addCleanup(self.network.close)
        text = CONFIG + "sequence_parallel_size: 2\n"
        (self.folder / "config.yaml").write_text(text)

    def host_of(self, rank: int) -> hosts.Host:
        return self.network.hosts[rank // 2]

    def begin(self, *words: str, **environment: str) -> list[Rank]:
        """Starts four ranks with torchrun's variables; MASTER_ADDR is a name."""
        return [
            self.start(
                self.host_of(rank).inside(
                    "env", f"--chdir={self.folder}", HOST, "train", "config.yaml", *words
                ),
                **{
                    "RANK": str(rank),
                    "WORLD_SIZE": str(len(RANKS)),
                    "LOCAL_RANK": str(rank % 2),
                    "LOCAL_WORLD_SIZE": "2",
                    "MASTER_ADDR": "node1",
                    "MASTER_PORT": PORT,
                    **environment,
                },
            )
            for rank in RANKS
        ]

    def end_all(self, ranks: list[Rank], codes: list[int]) -> list[str]:
        """Waits for all ranks. Returns the message of each, "" if it has none."""
        found = [rank.end() for rank in ranks]
        said = "\n\n".join(f"rank {n}:\n{rank.said}" for n, rank in enumerate(ranks))
        self.assertEqual(found, codes, said)
        return [
            "".join(line for line in rank.said.splitlines() if line.startswith("moonring: "))
            for rank in ranks
        ]

    def expect_whole(self, out: str, steps: int) -> None:
        """Compares a run with the same one on four ranks of one machine, never interrupted."""
        words = [f"max_steps={steps}", "output_dir=whole", AGAIN]
        self.run_words(HOST, "-n", "4", "train", "config.yaml", *words)
        self.assertEqual(self.losses(out), self.losses("whole"))
        self.assertEqual(self.weights(out), self.weights("whole"))


class Links(Hosts):
    def test_started_by_torchruns_variables(self):
        self.end_all(self.begin("max_steps=3"), [0] * 4)
        self.expect_whole("out", 3)

    def test_started_by_slurms_variables(self):
        ranks = [
            self.start(
                self.host_of(rank).inside(
                    "env", f"--chdir={self.folder}", HOST, "train", "config.yaml", "max_steps=3"
                ),
                SLURM_PROCID=str(rank),
                SLURM_LOCALID=str(rank % 2),
                SLURM_NODEID=str(rank // 2),
                SLURM_STEP_NUM_TASKS="4",
                SLURM_STEP_NUM_NODES="2",
                SLURM_STEP_TASKS_PER_NODE="2(x2)",
                SLURM_STEP_NODELIST="node[1-2]",
                SLURM_JOB_ID="4711",
                SLURM_STEP_ID="0",
                MOONRING_TOKEN="secret",
            )
            for rank in RANKS
        ]
        self.end_all(ranks, [0] * 4)
        self.expect_whole("out", 3)

    def test_a_slow_link_changes_no_bit(self):
        self.network.limit("20mbit")
        self.end_all(self.begin("max_steps=3"), [0] * 4)
        self.expect_whole("out", 3)

    def test_a_short_cut_changes_no_bit(self):
        ranks = self.begin("max_steps=40")
        ranks[0].wait_for("step 5/")
        self.network.drop(self.network.hosts[1])
        time.sleep(MOMENT)
        at_the_cut = ranks[0].said.count("\nstep ")
        self.assertLess(at_the_cut, 40, "the run has ended before the cut")
        self.network.forward(self.network.hosts[1])
        self.end_all(ranks, [0] * 4)
        self.expect_whole("out", 40)

    def cut_and_resume(self, cut, mend):
        ranks = self.begin(ENDLESS, "save_strategy=steps", "save_steps=5", "ddp_timeout=20")
        ranks[0].wait_for("step 12/")  # checkpoint-5 is complete, since checkpoint-10 has begun
        cut(self.network.hosts[1])
        messages = self.end_all(ranks, [1] * 4)
        for rank in (0, 1):
            self.assertIn("ranks 2, 3 are stopped or out of reach", messages[rank])
        for rank in (2, 3):
            self.assertIn("rank 0 is stopped or out of reach", messages[rank])
        mend(self.network.hosts[1])
        saved = self.folder.glob("out/checkpoint-*/manifest.json")
        steps = 2 + max(int(each.parent.name.partition("-")[2]) for each in saved)
        words = [f"max_steps={steps}", "resume_from_checkpoint=auto"]
        ranks = self.begin(*words)
        self.end_all(ranks, [0] * 4)
        self.assertIn("goes on after step", ranks[0].said)
        words = [f"max_steps={steps}", "output_dir=whole"]
        self.run_words(HOST, "-n", "4", "train", "config.yaml", *words)
        self.assertEqual(self.weights("out"), self.weights("whole"))

    def test_a_link_that_drops_everything(self):
        self.cut_and_resume(self.network.drop, self.network.forward)

    def test_an_interface_that_is_down(self):
        self.cut_and_resume(self.network.unplug, self.network.plug)

    def test_a_killed_rank_is_named_on_both_hosts(self):
        ranks = self.begin(ENDLESS)
        ranks[0].wait_for("step 5/")
        ranks[3].kill()
        for message in self.end_all(ranks, [1, 1, 1, 128 + 9])[:3]:
            self.assertIn("rank 3 has died", message)

    def expect_unreachable(self, ranks: list[Rank]) -> None:
        for message in self.end_all(ranks, [1] * 4):
            self.assertIn("is there a firewall, or does GLOO_SOCKET_IFNAME name", message)

    def test_a_firewall_that_opens_master_port_alone(self):
        self.network.firewall(PORT)
        self.expect_unreachable(self.begin(ENDLESS, "ddp_timeout=15"))

    def test_an_interface_that_the_other_host_does_not_reach(self):
        self.expect_unreachable(self.begin(ENDLESS, "ddp_timeout=15", GLOO_SOCKET_IFNAME="lo"))


class Folders(Hosts):
    def setUp(self):
        super().setUp()
        (self.folder / "local").mkdir()
        hosts.call(
            *self.network.hosts[1].inside(
                "mount", "-t", "tmpfs", "none", str(self.folder / "local")
            )
        )

    def test_checkpoints_in_folders_that_are_not_shared_are_refused(self):
        words = ["max_steps=3", "save_strategy=steps", "output_dir=local/out"]
        for message in self.end_all(self.begin(*words), [2] * 4):
            self.assertIn(
                "output_dir: local/out of rank 2 is another folder than that of rank 0", message
            )

    def test_without_checkpoints_rank_0_writes_the_model(self):
        ranks = self.begin("max_steps=3", "output_dir=local/out")
        self.end_all(ranks, [0] * 4)
        self.expect_whole("local/out", 3)
        seen = self.network.hosts[1].inside("ls", str(self.folder / "local/out"))
        self.assertEqual(self.run_words(*seen), "")

    def test_a_signal_saves_nothing_there(self):
        # With sharded states each rank has files of its own.
        ranks = self.begin(ENDLESS, "output_dir=local/out", "zero_stage=1")
        ranks[0].wait_for("step 3/")
        ranks[2].process.terminate()
        self.end_all(ranks, [128 + 15] * 4)
        self.assertIn("was not saved: output_dir: local/out of rank 2 is another", ranks[0].said)


if __name__ == "__main__":
    hosts.enter()
    unittest.main()
