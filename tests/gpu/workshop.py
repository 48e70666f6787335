"""Shared objects of the checks: the packed programs, the device, models and data that are made on
demand, and runs of moonring with their results.
"""

import copy
import dataclasses
import functools
import importlib.util
import json
import math
import os
import shutil
import sys
import threading
import time
import zipfile

import inputs
import processes

# Environment of ranks that share the first GPU. They exchange over Gloo through host memory,
# because NCCL rejects two ranks on one GPU.
ONE_CARD = {
    "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
    "MOONRING_EXCHANGE": "host",
}


# Environment variables that are not passed on: those of another launcher's ranks, and those that
# change arithmetic.
NOT_PASSED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MOONRING_TOKEN",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CUDNN_SDPA_AVOID_RECOMPILE",
)


# Variables that some images set: fp32 products in TF32, with errors of 1e-3.
TF32 = {"NVIDIA_TF32_OVERRIDE": "1", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}


class Skip(Exception):
    pass


def has_libtorch(folder):
    return os.path.exists(os.path.join(folder, "libtorch_cpu.so"))


def library_path(own):
    """LD_LIBRARY_PATH for the packed programs: the LibTorch already on LD_LIBRARY_PATH, else that
    of this Python's torch; then torch's CUDA libraries, and the packed ones. None where there is
    no LibTorch.
    """
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    found = [folder for folder in given if has_libtorch(folder)][:1]
    if not found:
        spec = importlib.util.find_spec("torch")
        for place in (
            spec.submodule_search_locations if spec and spec.submodule_search_locations else []
        ):
            if has_libtorch(os.path.join(place, "lib")):
                found = [os.path.join(place, "lib")]
    if not found:
        return None
    wheels = os.path.join(
        os.path.dirname(os.path.dirname(found[0])), "nvidia"
    )  # torch's CUDA libraries
    beside = (
        [os.path.join(wheels, name, "lib") for name in sorted(os.listdir(wheels))]
        if os.path.isdir(wheels)
        else []
    )
    return ":".join(found + [folder for folder in beside if os.path.isdir(folder)] + given + [own])


@dataclasses.dataclass
class Sizes:
    matmul: int  # size of the square bf16 product; fp32 uses half
    copy_bytes: int
    kernels: dict  # arguments of `measure kernels`
    gradients: dict  # the model whose gradients are compared
    gradient_tokens: int
    training_tokens: int
    training_steps: int
    kinds: dict  # the model for DPO, LoRA and other kinds of training
    mixture: dict
    kind_tokens: int
    kind_steps: int
    resume_steps: int
    attention: dict  # heads, kv_heads, head_dim
    attention_tokens: tuple
    llama: dict
    llama_tokens: tuple
    llama_steps: int
    deep: dict  # the model whose longest document is determined
    deep_memory: str
    profile_tokens: int
    hybrid: dict
    hybrid_tokens: int
    longest_of_many: int  # longest of the documents with many lengths
    completion_tokens: int
    too_many: dict  # keys of a step that does not fit in the card's memory


REAL = Sizes(
    matmul=8192,
    copy_bytes=2**30,
    kernels={
        "rows": 8192,
        "width": 4096,
        "heads": 32,
        "kv_heads": 8,
        "vocabulary": 128256,
        "parameters": 2**27,
    },
    gradients=inputs.SMOLLM2,
    gradient_tokens=256,
    training_tokens=128,
    training_steps=20,
    kinds=inputs.SMALL,
    mixture=inputs.MIXTURE,
    kind_tokens=192,
    kind_steps=6,
    resume_steps=60,
    attention={"heads": 32, "kv_heads": 8, "head_dim": 128},
    attention_tokens=(8192, 32768, 131072),
    llama=inputs.LLAMA_8,
    llama_tokens=(8192, 32768),
    llama_steps=5,
    deep=inputs.LLAMA_4,
    deep_memory="32GiB",
    profile_tokens=8192,
    hybrid=inputs.HYBRID,
    hybrid_tokens=8192,
    longest_of_many=8192,
    completion_tokens=128,
    too_many={"cutoff_len": 32768, "per_device_train_batch_size": 32},
)
DRY = Sizes(
    matmul=128,
    copy_bytes=2**16,
    kernels={
        "rows": 16,
        "width": 64,
        "heads": 4,
        "kv_heads": 2,
        "vocabulary": 100,
        "parameters": 1000,
    },
    gradients=inputs.TINY,
    gradient_tokens=96,
    training_tokens=48,
    training_steps=20,
    kinds=inputs.TINY,
    mixture=inputs.TINY | {"experts": 4},
    kind_tokens=48,
    kind_steps=3,
    resume_steps=60,
    attention={"heads": 4, "kv_heads": 2, "head_dim": 16},
    attention_tokens=(64, 128, 256),
    llama=inputs.TINY,
    llama_tokens=(64, 256),
    llama_steps=3,
    deep=inputs.TINY,
    deep_memory="400MiB",
    profile_tokens=128,
    hybrid=inputs.TINY_HYBRID,
    hybrid_tokens=64,
    longest_of_many=64,
    completion_tokens=8,
    too_many={"cutoff_len": 64, "per_device_train_batch_size": 2},
)


@dataclasses.dataclass(frozen=True)
class Training:
    """Everything that determines a training run's numbers."""

    shape: dict
    lengths: list  # lengths of the documents
    tokens: int
    keys: dict

    def name(self):
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


class Lines:
    """Returns the log lines of a training run, `lines()`, by step."""

    def losses(self):
        return {line["current_steps"]: line["loss"] for line in self.lines()}


class Run(Lines):
    """A training run that was started, and its results after it has ended."""

    def __init__(self, process, out, config):
        self.process, self.out, self.config = process, out, config

    def lines(self):
        """Returns the log lines of steps. While the run writes, the last line may be incomplete."""
        lines = []
        try:
            with open(os.path.join(self.out, "trainer_log.jsonl"), encoding="utf-8") as f:
                for text in f:
                    try:
                        lines.append(json.loads(text))
                    except ValueError:
                        break
        except OSError:
            pass
        return [line for line in lines if "loss" in line]

    def memory(self):
        with open(os.path.join(self.out, "memory_report.json"), encoding="utf-8") as f:
            return json.load(f)

    def device_peak(self):
        """Returns the peak bytes of tensors on the GPU, of the rank with the most; None without a
        GPU."""
        return (
            max(
                (rank["totals"].get("device_allocated", 0) for rank in self.memory()["ranks"]),
                default=0,
            )
            or None
        )

    def peak_beside_plan(self):
        """Returns the GPU's peak divided by the predicted memory of tensors; None without a GPU."""
        plan, peak = self.memory()["plan"], self.device_peak()
        return peak / plan["total"] if plan and peak else None


class Carried(Lines):
    """The result of a CPU run that was made when packing; has the interface of Run."""

    def __init__(self, lines):
        self.carried = lines

    def lines(self):
        return self.carried


class Workshop:
    """The state that all checks share. for_check returns a copy for one check, with its own folder,
    processes and time limit."""

    def __init__(self, pack, work, out, dry, end, counted, references):
        self.pack, self.work, self.out, self.dry, self.end = pack, work, out, dry, end
        self.models, self.making = os.path.join(work, "models"), threading.Lock()
        os.makedirs(self.models)
        self.sizes = DRY if dry else REAL
        self.device = "cpu" if dry else "cuda"
        self.log = processes.Log(os.path.join(out, "log.txt"))
        self.deadline = end
        self.cores = len(os.sched_getaffinity(0))
        self.rates = {}  # by roofline.py's names: the highest measured rate per second
        self.counted = counted  # {tokens: work of a step of the timed model}
        self.references = references  # {Training.name(): lines}
        self.timed = {}  # {tokens: speed.Timed}
        self.libraries = library_path(os.path.join(pack, "dist", "lib"))
        self.names = 0
        self.started = []

    def for_check(self, number, seconds):
        own = copy.copy(self)
        own.work = self.path(f"check-{number:02d}")
        os.makedirs(own.work)
        own.deadline = min(time.monotonic() + seconds, self.end)
        own.names, own.started = 0, []
        return own

    @property
    def ceiling(self):
        """Operations per second of bf16 products; None before they are measured."""
        return self.rates.get("product bf16")

    @functools.cached_property
    def gpus(self):
        """Returns the number of GPUs that LibTorch sees; 0 in a dry run."""
        return 0 if self.dry else self.measure("devices")["cuda"]

    def note_ceiling(self, name, rate):
        """Records the highest measured rate per second in ceilings.json."""
        self.rates[name] = max(rate, self.rates.get(name, 0.0))
        inputs.write_json(os.path.join(self.out, "ceilings.json"), {"rates": self.rates})

    def path(self, name):
        return os.path.join(self.work, name)

    def fresh(self, name):
        self.names += 1
        return self.path(f"{self.names:03d}-{name}")

    def environment(self, threads=None, **more):
        environment = {key: value for key, value in os.environ.items() if key not in NOT_PASSED}
        threads = str(threads or max(1, self.cores // 4))
        return (
            environment
            | {
                "LD_LIBRARY_PATH": self.libraries,
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
            }
            | more
        )

    def start(self, command, threads=None, **environment):
        process = processes.Process(command, self.environment(threads, **environment), self.log)
        self.started.append(process)
        return process

    def stop_all(self):
        """Kills all processes that are still running."""
        for process in self.started:
            if process.running():
                process.kill()
                process.end("stopped")
        self.started = []

    def wait(self, started, until=lambda: False):
        processes.wait_for(started, self.deadline, until)

    def run(self, command, **more):
        process = self.start(command, **more)
        self.wait([process])
        return process.check()

    def measure(self, *words):
        """Runs the packed program `measure` on all cores and returns its JSON object."""
        text = self.run(
            [os.path.join(self.pack, "bin", "measure"), *map(str, words)], threads=self.cores
        )
        return json.loads(processes.last_line(text))

    def compare(self, *pairs):
        """The result of `measure compare` for each pair of files; "error" is ||a - b|| / ||b||. A
        number that JSON cannot express is NaN.
        """

        def known(numbers):
            return {key: math.nan if value is None else value for key, value in numbers.items()}

        if not pairs:
            return []
        found = self.measure("compare", *(path for pair in pairs for path in pair))
        return [known(each) | {"each": known(each["each"])} for each in found]

    def test_program(self, name, device, chosen="*", **environment):
        """Runs a GoogleTest program and returns its tests, as in its JSON report."""
        results = self.fresh(name + ".json")
        process = self.start(
            [
                os.path.join(self.pack, "bin", name),
                f"--gtest_filter={chosen}",
                f"--gtest_output=json:{results}",
            ],
            ACCEPT_DEVICE=device,
            **environment,
        )
        self.wait([process])
        if not os.path.exists(results):
            raise processes.Failed(
                f"exit {process.process.returncode} of {name}: {processes.last_line(process.text)}"
            )
        with open(results, encoding="utf-8") as f:
            return [test for suite in json.load(f)["testsuites"] for test in suite["testsuite"]]

    def model(self, shape):
        """Returns the folder of a model, which is made once for each shape."""
        folder = os.path.join(
            self.models, "-".join(f"{key}{value}" for key, value in sorted(shape.items()))
        )
        with self.making:
            if not os.path.exists(folder):
                write = inputs.write_hybrid if "linear_head_dim" in shape else inputs.write_model
                write(folder + ".new", shape)
                os.rename(folder + ".new", folder)
        return folder

    def documents(self, lengths):
        folder = self.fresh("data")
        inputs.write_documents(folder, lengths)
        return folder

    def moonring(self, device, ranks, *words):
        return [
            os.path.join(self.pack, "dist", "moonring"),
            "-n",
            str(ranks),
            "--device",
            device,
            *words,
        ]

    def config(self, side, shape, data, tokens, keys):
        """Writes a configuration and returns its path with the folder of its run. `side` is part of
        the folder's name: device, reference or another word that distinguishes two runs."""
        folder = self.fresh(side)
        os.makedirs(folder)
        out, path = os.path.join(folder, "out"), os.path.join(folder, "config.yaml")
        whole = {
            "model_name_or_path": self.model(shape),
            "stage": "sft",
            "do_train": True,
            "finetuning_type": "full",
            "dataset": "copy",
            "dataset_dir": data,
            "template": "chatml",
            "cutoff_len": tokens,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 1,
            "learning_rate": 1e-4,
            "lr_scheduler_type": "constant",
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "memory_report": True,
            "output_dir": out,
        } | keys
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(f"{key}: {json.dumps(value)}\n" for key, value in whole.items())
        return path, out

    def train(
        self,
        side,
        shape,
        data,
        tokens,
        keys,
        device=None,
        ranks=1,
        config=None,
        threads=None,
        words=(),
        before=(),
        **environment,
    ):
        """Starts a run. `before`: words before the command; `words`: keys after the
        configuration."""
        path, out = config or self.config(side, shape, data, tokens, keys)
        command = [*before, *self.moonring(device or self.device, ranks, "train", path, *words)]
        return Run(self.start(command, threads, **environment), out, (path, out))

    def start_training(self, side, what, device, threads):
        """Starts the run of a Training."""
        data = self.documents(what.lengths)
        return self.train(side, what.shape, data, what.tokens, what.keys, device, threads=threads)

    def reference(self, what, threads):
        """Returns a Training's run on the CPU: the packed result, or else a run that is started
        now."""
        lines = self.references.get(what.name())
        if lines is not None:
            return Carried(lines)
        return self.start_training("reference", what, "cpu", threads)

    def finish(self, *runs):
        runs = [run for run in runs if isinstance(run, Run)]
        self.wait([run.process for run in runs])
        for run in runs:
            run.process.check()
            self.forget_models(run)

    def forget_models(self, run):
        """Deletes the weights that a run has written, because the disk may be small."""
        name = os.path.join(run.out, "model.safetensors")
        if os.path.exists(name):
            os.remove(name)

    @functools.cached_property
    def peer(self):
        """Returns PYTHONPATH for a Python with torch and Transformers: those of this Python, or the
        unpacked wheels. Raises Skip if there is neither."""

        def asks(path):
            process = self.start(
                [
                    sys.executable,
                    "-c",
                    "import torch, transformers as t; print(torch.__version__, t.__version__)",
                ],
                PYTHONPATH=path,
            )
            self.wait([process])
            return process.process.returncode == 0, processes.last_line(process.text)

        own = os.environ.get("PYTHONPATH", "")
        good, said = asks(own)
        wheels = os.path.join(self.pack, "wheels")
        if not good and os.path.isdir(wheels):
            own = os.pathsep.join(filter(None, [self.path("peer"), own]))
            for name in os.listdir(wheels):
                with zipfile.ZipFile(os.path.join(wheels, name)) as wheel:
                    wheel.extractall(self.path("peer"))
            good, said = asks(own)
        if not good:
            raise Skip(f"{sys.executable} has no torch with Transformers: {said}")
        return own, said

    def forget(self, *paths):
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)

    def probe_input(self, side, model, tokens):
        """Makes a new folder with the input tokens of `probe` and layers.lua."""
        folder = self.fresh(side)
        os.makedirs(folder)
        given = os.path.join(folder, "in.json")
        inputs.write_probe(given, tokens, inputs.vocabulary_of(model))
        return folder, given

    def probe(
        self,
        side,
        model,
        tokens,
        keys=(),
        device=None,
        ranks=1,
        threads=None,
        before=(),
        **environment,
    ):
        """Starts `moonring probe`. Returns (process, path of its JSON, path of its gradients)."""
        folder, given = self.probe_input(side, model, tokens)
        found, gradients = (
            os.path.join(folder, name) for name in ("out.json", "gradients.safetensors")
        )
        command = self.moonring(
            device or self.device,
            ranks,
            "probe",
            f"model_name_or_path={model}",
            f"input={given}",
            f"out={found}",
            f"grads={gradients}",
            *keys,
        )
        process = self.start([*before, *command], threads, **environment)
        return process, found, gradients


def find_tool(name):
    """Returns the path of one of NVIDIA's tools, on PATH or in the toolkit's folder; None if it is
    missing."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)
