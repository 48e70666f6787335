"""Compares tokens per second of LoRA over a quantized base with LoRA over the unquantized base.

    packed_speed.py --moonring PATH --model DIR --data DIR [--cutoff 512,2048] [--rounds 2]

SmolLM2 or a similar model with the chatml template; LLaMA-Factory's demo data packed to rows of
--cutoff tokens, one row per step. Each quantization code runs alternately with the unquantized run,
in fp32 and bf16; a run's speed is that of its median step, and the best of all rounds is shown.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from optimizers_table import alpaca, parser_of, speed  # noqa: E402

CODES = [
    ("as it is", {}),
    ("nf4, double", {"quantization_bit": 4}),
    ("nf4", {"quantization_bit": 4, "double_quantization": False}),
    ("int8", {"quantization_bit": 8}),
]


def speed_of(args, precision, cutoff, more):
    with tempfile.TemporaryDirectory() as folder:
        lora = {
            "finetuning_type": "lora",
            "lora_target": "all",
            "lora_rank": 8,
            "packing": True,
            "cutoff_len": cutoff,
            "per_device_train_batch_size": 1,
            "learning_rate": 1e-4,
            "save_strategy": "no",
        }
        return speed(args, alpaca(args, folder, 8, {**lora, **precision, **more}))


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--cutoff", default="512,2048", help="tokens a step")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    for dtype, precision in (("fp32", {}), ("bf16", {"bf16": True})):
        for cutoff in map(int, args.cutoff.split(",")):
            best = {}
            for _ in range(args.rounds):
                for name, more in CODES:
                    now = speed_of(args, precision, cutoff, more)
                    best[name] = max(best.get(name, 0), now)
            for name, found in best.items():
                print(
                    f"{dtype} {cutoff:6} {name:12} {found:7.0f} tokens/s "
                    f"{found / best['as it is']:6.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
