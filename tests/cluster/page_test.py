#!/usr/bin/python3
"""The Slurm script and the Kubernetes manifests of docs/cluster.md, run on this machine: `srun` is
replaced by a loop that starts the tasks with Slurm's variables, a pod by a process with its
variables. A run that is told to save is queued again, continues, and ends with the weights of a run
that was never interrupted.

Needs PyYAML, which Debian's Python has (python3-yaml) and another Python on the PATH may lack.
"""

import os
import re
import signal
import stat
import sys
import unittest

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../docs"))
import pages  # noqa: E402
from cluster_case import CONFIG, HOST, ROOT, ClusterCase, free_port  # noqa: E402

PAGE = "docs/cluster.md"
ENDLESS = 1000000
# Starts the tasks and, as srun does, ends with the highest of their exit codes, 128+n for a signal.
# `tasks` has the process ids: Slurm signals the tasks, neither srun nor the script.
SRUN = """\
#!/bin/bash
while [ "${1#--}" != "$1" ]; do shift; done
export SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE=2
export SLURM_STEP_NODELIST=localhost SLURM_NODEID=0 SLURM_STEP_ID=0
pids=()
for task in 0 1; do
  SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
  pids+=($!)
done
echo "${pids[@]}" > tasks
highest=0
for pid in "${pids[@]}"; do
  code=0
  wait "$pid" || code=$?
  [ "$code" -le "$highest" ] || highest=$code
done
exit "$highest"
"""


def blocks() -> list[pages.Block]:
    return list(pages.blocks(PAGE, pages.read(str(ROOT), PAGE)))


def manifests() -> list[list[dict]]:
    """The manifests of the page's blocks, each of one or several documents."""
    texts = [block.text for block in blocks() if block.text.startswith("apiVersion:")]
    return [list(yaml.safe_load_all(text)) for text in texts]


def job_of(documents: list[dict]) -> dict:
    (job,) = (each["spec"] for each in documents if each["kind"] == "Job")
    return job


class Page(ClusterCase):
    def write_program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def setUp(self):
        super().setUp()
        self.write_program("moonring", f'#!/bin/sh\nexec "{HOST}" "$@"\n')
        self.environment["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"
        self.configure(ENDLESS)

    def configure(self, steps: int) -> None:
        text = f"{CONFIG}sequence_parallel_size: 2\nmax_steps: {steps}\n"
        (self.folder / "config.yaml").write_text(text)

    def saved_step(self, out: str) -> int:
        (saved,) = (self.folder / out).glob("checkpoint-*")
        self.assertTrue((saved / "manifest.json").exists(), saved)
        return int(saved.name.partition("-")[2])

    def expect_as_if_never_interrupted(self, out: str, steps: int) -> None:
        self.run_words(HOST, "-n", "2", "train", "config.yaml", "output_dir=whole")
        self.assertEqual(self.losses(out), self.losses("whole"))
        self.assertEqual(sorted(self.losses(out)), list(range(1, steps + 1)))
        self.assertEqual(self.weights(out), self.weights("whole"))


class Slurm(Page):
    def setUp(self):
        super().setUp()
        self.write_program("srun", SRUN)
        self.write_program("scontrol", '#!/bin/sh\necho "$@" >> asked\n')
        (script,) = (each.text for each in blocks() if each.mark == "file: train.sbatch")
        (self.folder / "train.sbatch").write_text(script)
        self.job = {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_PROCID": "0",  # of the script itself, which is one process
            "MOONRING_HOME": str(self.folder / "bin"),
            "MASTER_PORT": free_port(),
        }

    def submit(self):
        return self.start(["bash", "train.sbatch"], **self.job)

    def tasks(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "tasks").read_text().split()]

    def test_a_job_whose_time_is_up_is_queued_again(self):
        job = self.submit()
        job.wait_for("step 2/")
        for task in self.tasks():
            os.kill(task, signal.SIGUSR1)
        job.wait_for("SIGUSR1: saved after step")  # and continues
        self.assertFalse((self.folder / "asked").exists())
        for task in self.tasks():
            os.kill(task, signal.SIGTERM)
        self.assertEqual(job.end(), 143, job.said)
        self.assertIn("SIGTERM: saved after step", job.said)
        self.assertEqual((self.folder / "asked").read_text(), f"requeue {os.getpid()}\n")
        saved = sorted(self.folder.glob("out/checkpoint-*/manifest.json"))
        steps = 2 + max(int(each.parent.name.partition("-")[2]) for each in saved)
        self.configure(steps)
        again = self.submit()
        self.assertEqual(again.end(), 0, again.said)
        self.assertIn("goes on after step", again.said)
        self.assertEqual((self.folder / "asked").read_text().count("\n"), 1)
        self.expect_as_if_never_interrupted("out", steps)

    def test_an_error_that_would_recur_is_not_queued_again(self):
        self.job["CONFIG"] = "missing.yaml"
        job = self.submit()
        self.assertEqual(job.end(), 2, job.said)
        self.assertFalse((self.folder / "asked").exists())

    def test_the_script_asks_for_the_signal_of_the_page(self):
        text = (self.folder / "train.sbatch").read_text()
        options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", text, re.MULTILINE))
        self.assertTrue(options["signal"].startswith("TERM@"), "B: would signal the script alone")
        self.assertIn("requeue", options)

    def test_the_ranks_of_a_machine_are_counted(self):
        said = []
        for node in range(4):
            said.append(
                self.run_words(
                    HOST,
                    "-e",
                    'io.write(os.getenv "LOCAL_WORLD_SIZE" or "none")',
                    SLURM_PROCID="0",
                    SLURM_STEP_NUM_TASKS="20",
                    SLURM_STEP_TASKS_PER_NODE="8(x2),3,1",
                    SLURM_NODEID=str(node),
                )
            )
        self.assertEqual(said, ["8", "8", "3", "1"])
        alone = self.run_words(
            HOST,
            "-e",
            'io.write(os.getenv "LOCAL_WORLD_SIZE" or "none")',
            SLURM_PROCID="0",
            SLURM_STEP_NUM_TASKS="1",
            SLURM_STEP_TASKS_PER_NODE="1",
            SLURM_NODEID="0",
        )
        self.assertEqual(alone, "none")


class Kubernetes(Page):
    def pod(self, job: dict, **environment: str):
        """Starts the container of a job's pod, with this folder in place of its volumes."""
        (container,) = job["template"]["spec"]["containers"]
        here = {"/config/": f"{self.folder}/", "/runs/": f"{self.folder}/"}
        words = container["command"] + container["args"]
        for mounted, folder in here.items():
            words = [word.replace(mounted, folder) for word in words]
        given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        given = {name: value.replace("/runs/", f"{self.folder}/") for name, value in given.items()}
        return self.start(words, **(given | {"OMP_NUM_THREADS": "1"} | environment))

    def job(self, indexed: bool) -> dict:
        (job,) = (
            job
            for job in map(job_of, manifests())
            if (job.get("completionMode") == "Indexed") == indexed
        )
        return job

    def end_and_continue(self, start) -> None:
        """Ends the first pod by SIGTERM, as Kubernetes does, and starts the pods again."""
        pods = start()
        pods[0].wait_for("step 2/")
        pods[0].process.terminate()
        for pod in pods:
            self.assertEqual(pod.end(), 143, pod.said)
        steps = self.saved_step("moonring") + 2
        self.configure(steps)
        for pod in start():
            self.assertEqual(pod.end(), 0, pod.said)
        self.expect_as_if_never_interrupted("moonring", steps)

    def test_one_pod(self):
        self.end_and_continue(lambda: [self.pod(self.job(indexed=False))])

    def test_a_pod_for_each_rank(self):
        job = self.job(indexed=True)
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MOONRING_TOKEN": "secret"}

        def start():
            port = free_port()
            return [
                self.pod(job, JOB_COMPLETION_INDEX=index, MASTER_PORT=port, **shared)
                for index in ("0", "1")
            ]

        self.end_and_continue(start)

    def test_manifests_fit_together(self):
        for documents in manifests():
            job = job_of(documents)
            pod = job["template"]["spec"]
            self.assertEqual(pod["restartPolicy"], "Never")  # as podFailurePolicy requires
            first = job["podFailurePolicy"]["rules"][0]
            self.assertEqual(first["action"], "FailJob")
            self.assertEqual(first["onExitCodes"]["values"], [2])
            names = {each["name"] for each in pod["volumes"]}
            (container,) = pod["containers"]
            self.assertEqual({each["name"] for each in container["volumeMounts"]}, names)
        documents = next(each for each in manifests() if len(each) > 1)
        service = next(each for each in documents if each["kind"] == "Service")
        job, named = job_of(documents), next(each for each in documents if each["kind"] == "Job")
        name = named["metadata"]["name"]
        pod = job["template"]["spec"]
        given = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        self.assertEqual(service["spec"]["selector"], {"job-name": name})
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(given["MASTER_ADDR"], f"{name}-0.{pod['subdomain']}")
        self.assertEqual(int(given["WORLD_SIZE"]), job["completions"])
        self.assertEqual(job["completions"], job["parallelism"])


if __name__ == "__main__":
    unittest.main()
