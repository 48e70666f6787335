"""Runs TRL's GRPOTrainer on the tasks of scripts/examples/rewards, as the baseline of the table in
docs/rollouts.md.

    grpo_by_trl.py --model DIR --task format|sums [--steps 40] [--seed 42] [--threads 2] [--bf16]

Model (a Hugging Face folder of SmolLM2-135M-Instruct), prompts, LoRA, batch, learning rate and
rewards are those of the task's YAML, in TRL 0.24 on a CPU, in fp32 or under bf16 autocast. 16
prompts are held out and evaluated before the first step and after every 20 steps. Prints a JSON
line for each evaluation, and the mean reward of every ten steps with their seconds.
"""

import argparse
import json
import os
import re
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS = os.path.join(HERE, "..", "..", "scripts", "examples", "rewards")


def texts(completions):
    return [each[0]["content"] for each in completions]


def quoted(completions, completion_ids, **columns):
    """The reward of format.lua."""
    worth = []
    for text, ids in zip(texts(completions), completion_ids):
        bare = text.strip(" \t\n\r\f\v")
        found = [bare.startswith('"'), re.match(r'^".*"$', bare, re.S) is not None]
        found += [re.match(r'^"[^"]+"$', bare) is not None, STOP in ids]
        worth.append(0.25 * sum(found))
    return worth


def right(completions, answer, **columns):
    """The first reward of sums.lua."""
    found = [re.findall(r"[0-9]+", text) for text in texts(completions)]
    return [float(bool(of) and of[-1] == wanted) for of, wanted in zip(found, answer)]


def bare(completions, **columns):
    """The second reward of sums.lua."""
    return [0.2 * bool(re.match(r"^\s*[0-9]+\.?\s*$", text)) for text in texts(completions)]


REWARDS = {"format": ("things", [quoted]), "sums": ("sums", [right, bare])}


def arguments():
    read = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    read.add_argument("--model", required=True)
    read.add_argument("--task", choices=sorted(REWARDS), required=True)
    read.add_argument("--steps", type=int, default=40)
    read.add_argument("--seed", type=int, default=42)
    read.add_argument("--threads", type=int, default=2)
    read.add_argument("--bf16", action="store_true")
    return read.parse_args()


def main():
    global STOP
    args = arguments()
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(args.threads)
    name, functions = REWARDS[args.task]
    rows = json.load(open(os.path.join(TASKS, name + ".json")))
    for row in rows:
        row["prompt"] = [{"role": "user", "content": row.pop("instruction")}]
    parts = Dataset.from_list(rows).train_test_split(test_size=16, seed=args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # as generate() accepts them
    STOP = tokenizer.eos_token_id

    class Tell(TrainerCallback):
        rewards, began = [], time.perf_counter()

        def on_log(self, args, state, control, logs=None, **more):
            if "eval_reward" in logs:
                told = {"step": state.global_step, "eval_reward": logs["eval_reward"]}
                print(json.dumps(told), flush=True)
            elif "reward" in logs:
                self.rewards.append(logs["reward"])
                if len(self.rewards) == 10:
                    mean, now = sum(self.rewards) / 10, time.perf_counter()
                    told = {"step": state.global_step, "reward": mean, "s": now - self.began}
                    print(json.dumps(told), flush=True)
                    self.rewards, self.began = [], now

    trainer = GRPOTrainer(
        model=args.model,
        reward_funcs=functions,
        train_dataset=parts["train"],
        eval_dataset=parts["test"],
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[Tell()],
        args=GRPOConfig(
            output_dir=f"/tmp/grpo_by_trl_{args.task}_{args.seed}",
            use_cpu=True,
            bf16=args.bf16,
            seed=args.seed,
            num_generations=8,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=1,
            per_device_eval_batch_size=16,
            max_prompt_length=64,
            max_completion_length=32,
            learning_rate=2e-4,
            lr_scheduler_type="constant",
            max_steps=args.steps,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=20,
            eval_on_start=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            gradient_checkpointing=False,
        ),
    )
    trainer.train()


if __name__ == "__main__":
    main()
