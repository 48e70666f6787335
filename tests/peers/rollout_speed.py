"""Compares tokens per second and peak memory of batched decoding: model:rollout and Transformers'
`generate`.

    rollout_speed.py --moonring PATH --model DIR [--batches 1,8,32] [--rounds 2]

SmolLM2 or a similar model in fp32; each prompt has --prompt tokens and gets --new greedy tokens.
The programs run alternately, each in a separate process whose greatest size is the peak; the best
of all rounds is shown. Also counts answers that differ because two tokens are almost tied. With
--group N, each prompt has N answers sampled with temperature 1: `generate` gets N rows per prompt
(num_return_sequences), while a rollout computes the prompt once. With --llama FILE.gguf,
llama-cpp-python decodes one prompt after another, if it is installed.

CPU seconds are shown too; on a machine with other work they are more reliable.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def prompts_of(args, batch):
    return [
        [100 + (p * 7919 + t * t * 104729) % 40000 for t in range(1, args.prompt + 1)]
        for p in range(1, batch + 1)
    ]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def tell(seconds, cpu, answers):
    found = {"best": min(seconds), "cpu": min(cpu), "peak": peak(), "answers": answers}
    print(json.dumps(found))


def transformers(args, batch):
    """Measures `generate`. Runs in a separate process."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(args.threads)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype))
    ids = torch.tensor(prompts_of(args, batch))
    how = {"do_sample": False}
    if args.group > 1:
        how = {
            "do_sample": True,
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "num_return_sequences": args.group,
        }
    seconds, cpu = [], []
    for _ in range(args.repeats):
        began, cpu_began = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            made = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=args.new,
                max_new_tokens=args.new,
                pad_token_id=2,
                repetition_penalty=1.0,
                **how,
            )
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    answers = [" ".join(map(str, row)) for row in made[:, args.prompt :].tolist()]
    tell(seconds, cpu, answers)


def llama(args, batch):
    from llama_cpp import Llama

    context = args.prompt + args.new + 1
    model = Llama(args.llama, n_ctx=context, n_threads=args.threads, verbose=False)
    seconds, cpu = [], []
    for _ in range(args.repeats):
        began, cpu_began = time.perf_counter(), time.process_time()
        for prompt in prompts_of(args, batch):
            for count, _ in enumerate(model.generate(prompt, temp=0.0, repeat_penalty=1.0)):
                if count + 1 == args.new:
                    break
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    tell(seconds, cpu, [])


def run(args, name, batch):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(args.threads),
        "HF_HUB_OFFLINE": "1",
        "MOONRING_THREADS": str(args.threads),
    }
    if name == "moonring":
        precision = {"float32": "fp32", "bfloat16": "bf16"}[args.dtype]
        command = [
            args.moonring,
            os.path.join(HERE, "rollout_speed.lua"),
            f"model={args.model}",
            f"batch={batch}",
            f"prompt={args.prompt}",
            f"new={args.new}",
            f"answers={args.group}",
            f"precision={precision}",
            f"temperature={1 if args.group > 1 else 0}",
            f"repeats={args.repeats}",
        ]
    else:
        command = [sys.executable, __file__, *sys.argv[1:], "--only", name, "--batches", str(batch)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moonring")
    parser.add_argument("--model", default=os.path.expanduser("~/.cache/moonring-oracle/smollm2"))
    parser.add_argument("--llama", help="a GGUF file")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--group", type=int, default=1, help="answers to each prompt")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        return {"transformers": transformers, "llama": llama}[args.only](args, int(args.batches))
    names = ["moonring", "transformers"] + (["llama"] if args.llama else [])
    for batch in map(int, args.batches.split(",")):
        best = {}
        for _ in range(args.rounds):
            for name in names:
                now = run(args, name, batch)
                if name not in best or now["best"] < best[name]["best"]:
                    best[name] = now
        tokens = batch * args.group * args.new
        for name in names:
            found = best[name]
            print(
                f"batch {batch:3} x {args.group} {name:13} {tokens / found['best']:8.1f} tokens/s  "
                f"{found['best']:7.2f} s  {found['cpu']:7.2f} s of CPU  "
                f"peak {found['peak'] / 2**20:7.0f} MiB",
                flush=True,
            )
        if args.group == 1:
            pairs = zip(best["moonring"]["answers"], best["transformers"]["answers"])
            differ = sum(a != b for a, b in pairs)
            print(f"batch {batch:3}: answers that differ: {differ} of {batch}")
    return None


if __name__ == "__main__":
    main()
