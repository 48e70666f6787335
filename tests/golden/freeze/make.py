"""Names of the trainable weights under finetuning_type: freeze, by LLaMA-Factory 0.9.5's own
function, for the small models of ../model.

    make.py        (from the root of the repository)

golden.json: a list of {"base", "layers", "modules", "extra", "learning": names, or null if the
function raises an error}.
"""

import json
import os
import types

from llamafactory.model.adapter import _setup_freeze_tuning
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [
    (1, ["all"], []),
    (-1, ["all"], []),
    (9, ["self_attn"], []),
    (-2, ["mlp", "input_layernorm"], ["embed_tokens"]),
    (1, ["mlp"], ["norm"]),
    (0, ["all"], ["norm", "embed_tokens"]),
    (2, ["post_attention_layernorm"], ["lm_head"]),
    (1, ["attn"], []),
]


def main():
    rows = []
    for base in ("gqa_tied", "mha_untied", "sharded"):
        for layers, modules, extra in CASES:
            model = AutoModelForCausalLM.from_pretrained(f"tests/golden/model/{base}")
            args = types.SimpleNamespace(
                use_llama_pro=False,
                freeze_trainable_layers=layers,
                freeze_trainable_modules=modules,
                freeze_extra_modules=extra,
                freeze_multi_modal_projector=True,
                freeze_vision_tower=True,
                freeze_language_model=False,
            )
            try:
                _setup_freeze_tuning(model, args, True, False)
                learning = sorted(
                    name for name, parameter in model.named_parameters() if parameter.requires_grad
                )
            except ValueError:
                learning = None
            rows.append(
                {
                    "base": base,
                    "layers": layers,
                    "modules": modules,
                    "extra": extra,
                    "learning": learning,
                }
            )
    with open(os.path.join(HERE, "golden.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
