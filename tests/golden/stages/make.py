"""LLaMA-Factory 0.9.5's own runs of every stage on a small random model, in full precision: losses,
gradient norms, metrics.

    make.py [--oracle DIR] [NAME ...]     default: model/, adapter/ and data/ if they are missing,
                                          and every case of cases.json

A case is `run_exp` with the keys in cases.json: {"base": {...}, "cases": {NAME: {...}}}. Methods of
the Trainer are wrapped, to read values that its logs round. What is computed changes only in these
points: LLaMA-Factory 0.9.5 with TRL 0.24 trains `sigmoid` whatever `pref_loss` is, so hinge, ipo,
nca_pair and robust are passed to TRL's dpo_loss as its loss_type (and around LLaMA-Factory's check
of pref_loss). If the vocabulary grows, the noise of its new rows is drawn as in Moonring; so are
the permutations of group_by_length.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "..", "tokenizer", "tiny", "smollm2.tokenizer.json")
OF_TRL = ("hinge", "ipo", "nca_pair", "robust")


def make_model():
    """A Llama of three layers with grouped queries and a tied head. Its weights
    are initialized so widely that its predictions are not nearly certain."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    vocabulary = max(t["id"] for t in json.load(open(TOKENIZER))["added_tokens"])
    vocabulary = max(vocabulary, max(json.load(open(TOKENIZER))["model"]["vocab"].values())) + 1
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        initializer_range=0.15,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        summary_dropout_prob=0.0,
    )
    folder = os.path.join(HERE, "model")
    LlamaForCausalLM(config).save_pretrained(folder)
    shutil.copy(TOKENIZER, os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|im_start|>",
                "eos_token": "<|im_end|>",
                "pad_token": "<|im_end|>",
                "unk_token": "<|endoftext|>",
                "clean_up_tokenization_spaces": False,
                "model_max_length": 512,
            },
            f,
            indent=2,
        )
    save_file(
        {
            "v_head.summary.weight": torch.randn(1, 48) * 0.2,
            "v_head.summary.bias": torch.randn(1) * 0.1,
        },
        os.path.join(folder, "value_head.safetensors"),
        metadata={"format": "pt"},
    )


def small(**more):
    """The keys that the models of other families share: the vocabulary of `model`, two layers, and
    a context of 64 tokens, which a rotary scaling extends."""
    vocabulary = json.load(open(os.path.join(HERE, "model", "config.json")))["vocab_size"]
    return (
        dict(
            vocab_size=vocabulary,
            hidden_size=32,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            tie_word_embeddings=True,
            initializer_range=0.15,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=2,
        )
        | more
    )


def make_families():
    """A mixture of experts; a model with softcaps on logits and scores, and a window; and one whose
    context is shorter than the texts."""
    import torch
    from transformers import (
        Gemma2Config,
        Gemma2ForCausalLM,
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2MoeConfig,
        Qwen2MoeForCausalLM,
    )

    torch.manual_seed(6)
    moe = Qwen2MoeConfig(
        **small(
            moe_intermediate_size=12,
            shared_expert_intermediate_size=16,
            num_experts=6,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            max_position_embeddings=512,
        )
    )
    gemma = Gemma2Config(
        **small(
            hidden_size=24,
            attn_logit_softcapping=4.0,
            final_logit_softcapping=6.0,
            query_pre_attn_scalar=12,
            sliding_window=24,
            max_position_embeddings=512,
        )
    )
    short = LlamaConfig(**small(max_position_embeddings=64))
    for name, model in (
        ("model_moe", Qwen2MoeForCausalLM(moe)),
        ("model_capped", Gemma2ForCausalLM(gemma)),
        ("model_short", LlamaForCausalLM(short)),
    ):
        folder = os.path.join(HERE, name)
        model.save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(HERE, "model", file), folder)


def make_adapters():
    """Adapters whose B is not zero, so that they have an effect."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    few = ["q_proj", "v_proj", "down_proj"]
    every = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate",
        "gate_proj",
        "up_proj",
        "down_proj",
        "shared_expert_gate",
    ]
    kinds = {
        "adapter": ("model", few, {}),
        "adapter_dora": ("model", few, {"use_dora": True, "use_rslora": True}),
        "adapter_moe": ("model_moe", every, {}),
    }
    for name, (base, targets, more) in kinds.items():
        if os.path.isdir(os.path.join(HERE, name)):
            continue
        torch.manual_seed(11)
        model = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, base), dtype=torch.float32)
        model = get_peft_model(
            model,
            LoraConfig(
                r=4,
                lora_alpha=8,
                lora_dropout=0.0,
                target_modules=targets,
                task_type="CAUSAL_LM",
                init_lora_weights=False,
                **more,
            ),
        )
        model.save_pretrained(os.path.join(HERE, name))
        os.remove(os.path.join(HERE, name, "README.md"))
        path = os.path.join(HERE, name, "adapter_config.json")
        config = json.load(open(path))
        config["base_model_name_or_path"] = base
        json.dump(config, open(path, "w"), indent=2, sort_keys=True)


def make_data():
    chance = random.Random(3)
    things = [
        "a lantern",
        "the harbour",
        "seven stones",
        "an old map",
        "the north wind",
        "a copper bell",
        "the orchard",
        "a paper boat",
    ]
    acts = [
        "keeps",
        "remembers",
        "follows",
        "mends",
        "counts",
        "waits for",
        "sings to",
        "hides from",
    ]

    def sentence():
        return (
            f"{chance.choice(things).capitalize()} {chance.choice(acts)} {chance.choice(things)}."
        )

    def text(low, high):
        return " ".join(sentence() for _ in range(chance.randint(low, high)))

    def conversation(turns):
        out = []
        for _ in range(turns):
            out += [
                {"from": "human", "value": f"What of {chance.choice(things)}?"},
                {"from": "gpt", "value": text(1, 2)},
            ]
        return out

    pairs = [
        {
            "conversations": conversation(i % 3)[: 2 * (i % 3)]
            + [{"from": "human", "value": text(1, 2)}],
            "chosen": {"from": "gpt", "value": text(1, 3)},
            "rejected": {"from": "gpt", "value": text(1, 2)},
            **({"system": "Be brief."} if i % 4 == 0 else {"system": ""}),
        }
        for i in range(40)
    ]
    judged = [
        {
            "messages": [
                {"role": "user", "content": text(1, 2)},
                {"role": "assistant", "content": text(1, 3)},
            ],
            "label": chance.random() < 0.6,
        }
        for _ in range(40)
    ]
    talks = [{"conversations": conversation(1 + i % 3)} for i in range(40)]
    texts = [{"text": text(1, 6)} for _ in range(60)]
    folder = os.path.join(HERE, "data")
    os.makedirs(folder, exist_ok=True)
    for name, rows in (("pairs", pairs), ("judged", judged), ("talks", talks), ("texts", texts)):
        with open(os.path.join(folder, name + ".json"), "w") as f:
            f.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    openai_tags = {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "system_tag": "system",
    }
    info = {
        "pairs": {
            "file_name": "pairs.json",
            "formatting": "sharegpt",
            "ranking": True,
            "columns": {
                "messages": "conversations",
                "chosen": "chosen",
                "rejected": "rejected",
                "system": "system",
            },
        },
        "judged": {
            "file_name": "judged.json",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "kto_tag": "label"},
            "tags": openai_tags,
        },
        "talks": {"file_name": "talks.json", "formatting": "sharegpt"},
        "texts": {"file_name": "texts.json", "columns": {"prompt": "text"}},
    }
    with open(os.path.join(folder, "dataset_info.json"), "w") as f:
        json.dump(info, f, indent=2)
        f.write("\n")


def pass_losses_on():
    """Passes hinge, ipo, nca_pair and robust to TRL's dpo_loss."""
    from llamafactory.hparams import FinetuningArguments
    from llamafactory.train.dpo.trainer import CustomDPOTrainer
    from trl import DPOTrainer

    def dpo_loss(self, *args):
        return DPOTrainer.dpo_loss(
            self, *args, loss_type=self.loss_type if self.loss_type in OF_TRL else "sigmoid"
        )

    CustomDPOTrainer.dpo_loss = dpo_loss
    checked = FinetuningArguments.__post_init__

    def unchecked(self):
        smoothing, self.dpo_label_smoothing = self.dpo_label_smoothing, 0.0
        checked(self)
        self.dpo_label_smoothing = smoothing

    FinetuningArguments.__post_init__ = unchecked
    FinetuningArguments.__dataclass_fields__["pref_loss"].type = str
    FinetuningArguments.__annotations__["pref_loss"] = str


def save_nothing_of_reward_models():
    """Disables saving: saving a reward model with a tied head fails (safetensors refuses tensors
    that share memory), and only the run itself is needed."""
    from llamafactory.train.rm import trainer, workflow

    trainer.PairwiseTrainer._save = lambda *args, **kwargs: None
    workflow.fix_valuehead_checkpoint = lambda *args, **kwargs: None


def counted_noise():
    """Draws the noise of new rows of the vocabulary as Moonring does
    (kernels/random/counter_random.h, model/checkpoint/vocabulary_growth.h), for the embedding and
    seed 42."""
    import numpy as np
    import torch
    from llamafactory.model.model_utils import embedding

    mask = np.uint64(0xFFFFFFFF)

    def philox(key, counters):
        c = [np.array(words, dtype=np.uint64) for words in counters]
        k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
        for _ in range(10):
            p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
            c = [
                p1 >> np.uint64(32) ^ c[1] ^ k0,
                p1 & mask,
                p0 >> np.uint64(32) ^ c[3] ^ k1,
                p0 & mask,
            ]
            k0, k1 = k0 + np.uint64(0x9E3779B9) & mask, k1 + np.uint64(0xBB67AE85) & mask
        return c

    def rows(weight, new):
        name = 0xCBF29CE484222325
        for byte in b"model.embed_tokens.weight":
            name = (name ^ byte) * 0x100000001B3 % 2**64
        ones = 0xFFFFFFFF
        c = philox(42, ([ones], [ones], [name & ones], [name >> 32]))
        key = int(c[1][0]) << 32 | int(c[0][0])
        count, width = new * weight.size(1), weight.size(1)
        blocks = -(-2 * count // 4)
        none = [0] * blocks
        u = (
            np.stack(philox(key, (range(blocks), none, none, none)), axis=1).reshape(-1)[
                : 2 * count
            ]
            >> np.uint64(8)
        ).astype(np.float64) * 2.0**-24
        normal = np.sqrt(-2 * np.log(1 - u[::2])) * np.cos(2 * np.pi * u[1::2])
        mean = weight[:-new].double().mean(dim=0)
        weight[-new:] = (mean + torch.from_numpy(normal.reshape(new, width)) / width**0.5).to(
            weight.dtype
        )

    embedding._noisy_mean_initialization = rows


def seeded_groups():
    """Draws the permutations of group_by_length as Moonring does, each with its own generator; the
    sampler uses torch's global one."""
    import torch
    from transformers import trainer_pt_utils

    def indices(self):
        self.epoch = getattr(self, "epoch", -1) + 1
        generator = torch.Generator().manual_seed(42 + self.epoch)
        return iter(
            trainer_pt_utils.get_length_grouped_indices(
                self.lengths, self.batch_size, generator=generator
            )
        )

    trainer_pt_utils.LengthGroupedSampler.__iter__ = indices


def run(name, config):
    import torch
    from llamafactory.train.tuner import run_exp
    from transformers import Trainer

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    pass_losses_on()
    counted_noise()
    seeded_groups()
    save_nothing_of_reward_models()
    config = dict(config)
    for key in ("model_name_or_path", "adapter_name_or_path", "ref_model"):
        if key in config:
            config[key] = os.path.join(HERE, config[key])
    out = tempfile.mkdtemp()
    config.update(dataset_dir=config.get("dataset_dir", os.path.join(HERE, "data")), output_dir=out)
    steps, history, evaluations = [], {}, []
    log_save, evaluate = Trainer._maybe_log_save_evaluate, Trainer.evaluate

    def recording_log(self, tr_loss, grad_norm, *args, **kwargs):
        if self.control.should_log and self.state.global_step > self._globalstep_last_logged:
            steps.append(
                {
                    "loss": tr_loss.item()
                    / (self.state.global_step - self._globalstep_last_logged),
                    "grad_norm": float(grad_norm),
                }
            )
        result = log_save(self, tr_loss, grad_norm, *args, **kwargs)
        history["log"] = self.state.log_history
        return result

    def recording_evaluate(self, *args, **kwargs):
        metrics = evaluate(self, *args, **kwargs)
        evaluations.append(
            {k: v for k, v in metrics.items() if not k.endswith(("_runtime", "_per_second"))}
        )
        return metrics

    Trainer._maybe_log_save_evaluate, Trainer.evaluate = recording_log, recording_evaluate
    run_exp(config)
    logged = [entry for entry in history["log"] if "loss" in entry]
    assert len(logged) == len(steps)
    for step, entry in zip(steps, logged):
        step.update(
            {
                key: value
                for key, value in entry.items()
                if key not in ("loss", "grad_norm", "epoch", "step", "learning_rate")
                and not key.startswith("train_")
            }
        )
    shutil.rmtree(out)
    print(name, [round(s["loss"], 5) for s in steps], evaluations)
    return {"steps": steps, **({"evaluations": evaluations} if evaluations else {})}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="run the one NAME in this process, its golden to stdout's last line",
    )
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    spec = json.load(open(os.path.join(HERE, "cases.json")))
    if args.here:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["HF_DATASETS_CACHE"] = cache
            golden = run(args.names[0], {**spec["base"], **spec["cases"][args.names[0]]})
        with open(os.path.join(HERE, "golden", args.names[0] + ".json"), "w") as f:
            f.write(
                "{\n"
                + ",\n".join(
                    f'"{key}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]"
                    for key, rows in golden.items()
                )
                + "\n}\n"
            )
        return
    os.makedirs(os.path.join(HERE, "golden"), exist_ok=True)
    for folder, make in (
        ("model", make_model),
        ("model_moe", make_families),
        ("adapter_moe", make_adapters),
        ("data", make_data),
    ):
        if not os.path.isdir(os.path.join(HERE, folder)):
            make()
    for name in args.names or spec["cases"]:
        subprocess.run([sys.executable, os.path.abspath(__file__), "--here", name], check=True)


if __name__ == "__main__":
    main()
