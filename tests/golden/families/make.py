"""Losses, logits and gradients of small random models of every family, computed by Transformers
4.57.6, or by 5.23.0 for models whose row says so. A run of this script makes only the models of the
Transformers version that it runs with.

    make.py [--only NAME ...] [--seed N] [--scale S] [--out DIR]

Each model has a folder with config.json and model.safetensors, as save_pretrained writes them
(fp32), and golden.json. The numbers in model.safetensors are not kept: ../seeded_weights.py
generates them from `weights` in golden.json. golden.json has the fields that the README of ../model
describes; `input` and `output` have the form of `moonring probe`. model.safetensors is kept as it
is if its format is not fp32 or not Transformers' (four bits, InternLM).

Everything is computed in fp64: within `lifted`, torch.float32 and torch.float are names of float64,
Tensor.float is Tensor.double, and float64 is the default dtype, so that casts to float32 in
Transformers' code (norms, rotary tables and inverse frequencies, softmax, router) are casts to
float64. A dispatch mode raises an error if a float32 tensor is created nevertheless. `loss_fp32` is
computed by the unchanged model.

Seed 0 (the default) makes the committed files. Another seed also draws other sizes (hidden size,
heads, layers, windows, experts), and --scale multiplies the sizes; both need --out.

Two kinds of models are drawn again. In a model with experts, no router choice may be nearly a tie:
for every token of every case and every layer, the k-th largest router logit must be at least MARGIN
above the next. And gradients must be well conditioned: those of the unchanged model in fp32 must be
within NOISE of those in fp64.
"""

import argparse
import contextlib
import copy
import json
import os
import random
import shutil
import sys
import types

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import seeded_weights  # noqa: E402
import sketch  # noqa: E402

MARGIN = 1e-3
NOISE = 5e-5
AUX_COEF = 0.05
FLOAT32 = torch.float32
torch.set_num_threads(1)


# Sizes. `original` is the context length before the rotary embedding was scaled.

DEFAULTS = dict(
    vocab=48,
    hidden=20,
    intermediate=24,
    layers=2,
    heads=4,
    kv=2,
    head_dim=8,
    window=7,
    original=32,
    experts=4,
    top_k=2,
    expert=8,
    shared=12,
)


def sizes(name, row, seed, scale):
    s = types.SimpleNamespace(**(DEFAULTS | row["sizes"]))
    if seed:
        r = random.Random(f"{name}/{seed}")
        s.kv = r.choice([1, 2, 2, 3, 4])
        s.heads = s.kv * r.choice([1, 2, 2, 3])
        s.head_dim = r.choice([8, 16])
        s.hidden = s.heads * s.head_dim if row.get("square") else 8 * r.randint(3, 6)
        s.intermediate = 8 * r.randint(5, 8)
        s.layers = max(s.layers, r.randint(2, 4))
        s.vocab = r.randint(64, 120)
        s.window = r.randint(3, 17)
        s.original = r.randint(24, 40)
        s.experts, s.top_k = r.randint(4, 8), r.randint(2, 3)
        s.expert, s.shared = 8 * r.randint(1, 3), 8 * r.randint(2, 4)
    elif row.get("square"):
        s.head_dim = s.hidden // s.heads
    for key in ("hidden", "head_dim", "intermediate", "expert", "shared", "vocab"):
        setattr(s, key, getattr(s, key) * scale)
    return s


def alternating(s, every):
    return [
        "full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(s.layers)
    ]


# The models: each is a function from sizes to the configuration, with these options:
#   family     the prefix of the classes in Transformers
#   sizes      differences from DEFAULTS
#   square     True: the head size is hidden / heads (the configuration has no head size)
#   long       True: texts of 240 tokens, 200 beyond the context before rotary scaling
#   gains      by part of a parameter's name: the factor by which its deviation exceeds
#              1.25 / sqrt(inputs)
#   drop       keys to remove from config.json, because published files lack them
#   more       keys to add to config.json, because published files have them
#   aux        False: no case with the routers' loss
#   transformers  the Transformers version that computes it, if not 4.57.6
#   composite  True: a multimodal model, of which only the text model is run
#   mxfp4      True: experts in four bits, made at random; the model has their values as
#              Transformers dequantises them
#   convert    converts folder and gradients to a form that Transformers does not have


def common(s, **more):
    return (
        dict(
            vocab_size=s.vocab,
            hidden_size=s.hidden,
            intermediate_size=s.intermediate,
            num_hidden_layers=s.layers,
            num_attention_heads=s.heads,
            num_key_value_heads=s.kv,
            max_position_embeddings=2048,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            bos_token_id=1,
            eos_token_id=2,
        )
        | more
    )


def scaled(s, context, **scaling):
    return dict(max_position_embeddings=context, rope_scaling=scaling)


def experts(s, **more):
    return (
        dict(
            num_experts=s.experts,
            num_experts_per_tok=s.top_k,
            moe_intermediate_size=s.expert,
            router_aux_loss_coef=AUX_COEF,
        )
        | more
    )


def grouped_experts(s, **more):
    return (
        dict(
            n_routed_experts=s.experts,
            num_experts_per_tok=s.top_k,
            moe_intermediate_size=s.expert,
            first_k_dense_replace=1,
        )
        | more
    )


def linear(s, interval=None, **more):
    """Gated delta rule with twice as many value heads as key heads, and values wider than keys."""
    sizes = dict(
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=6,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
    )
    return sizes | (dict(full_attention_interval=interval) if interval else {}) | more


def latent(s, **more):
    """Latent attention whose keys have more features than its values. The norms of latents have a
    fixed eps, which differs from the one in the file."""
    return common(
        s,
        num_key_value_heads=s.heads,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
        kv_lora_rank=12,
    ) | more


def kimi_layers(s, attending):
    """`layers`: numbers, from 1, of the layers with attention. The others have linear attention
    with three heads."""
    return dict(
        linear_attn_config=dict(
            full_attn_layers=attending,
            kda_layers=[i for i in range(1, s.layers + 1) if i not in attending],
            num_heads=3,
            head_dim=8,
            short_conv_kernel_size=4,
        )
    )


def kimi_linear(s, **more):
    """Kimi Linear's keys, with the names of the published file."""
    keys = latent(
        s,
        model_max_length=2048,
        moe_intermediate_size=s.expert,
        num_experts=s.experts,
        num_experts_per_token=s.top_k,
        pad_token_id=None,
        mla_use_nope=True,
        first_k_dense_replace=1,
    )
    del keys["max_position_embeddings"]
    return keys | more


# Keys that Transformers 5 writes in addition to the published ones.
KIMI_LINEAR_NEWER = [
    "layer_types",
    "mlp_layer_types",
    "linear_conv_kernel_dim",
    "linear_head_dim",
    "linear_num_heads",
    "qk_head_dim",
    "rope_parameters",
]


def state_space(s, **more):
    """Granite 4's state space model: six heads of 8 features, and another state size."""
    return common(
        s,
        intermediate_size=s.expert,
        shared_intermediate_size=s.intermediate,
        num_experts_per_tok=s.top_k,
        mamba_n_heads=6,
        mamba_d_head=s.hidden // 3,
        mamba_d_state=10,
        mamba_n_groups=1,
    ) | more


def nemotron(s, layers, **more):
    """Nemotron-H's layers, each of which is one half of a block, by their older or newer names."""
    keys = common(
        s,
        layers_block_type=layers,
        head_dim=s.head_dim,
        layer_norm_epsilon=1e-5,
        mamba_num_heads=6,
        mamba_head_dim=8,
        ssm_state_size=10,
        n_groups=2,
        conv_kernel=4,
        pad_token_id=7,
    )
    for key in ("num_hidden_layers", "rms_norm_eps", "rope_theta"):
        del keys[key]
    return keys | more


def gemma4(s, **more):
    keys = common(s, head_dim=s.head_dim, pad_token_id=0, rms_norm_eps=1e-6, sliding_window=s.window)
    del keys["rope_theta"]
    return keys | more


def ministral3(s, **more):
    """Ministral 3 with a context that is shorter than the texts, so that their queries are
    scaled."""
    keys = common(
        s,
        head_dim=s.head_dim,
        max_position_embeddings=8 * s.original,
        sliding_window=None,
        pad_token_id=11,
        rope_parameters=dict(
            rope_type="yarn",
            rope_theta=500.0,
            factor=8.0,
            original_max_position_embeddings=s.original,
            beta_fast=4.0,
            beta_slow=0.5,
            mscale=1.0,
            mscale_all_dim=1.0,
            llama_4_scaling_beta=0.3,
        ),
    )
    del keys["rope_theta"]
    return keys | more


def no_dense_mlp(keys):
    del keys["intermediate_size"]
    return keys


def longrope(s, fraction):
    half = int(s.head_dim * fraction) // 2
    return dict(
        type="longrope",
        short_factor=[round(1.0 + 0.05 * i, 4) for i in range(half)],
        long_factor=[round(1.2 + 1.7 * i, 4) for i in range(half)],
    )


MODELS = {
    "llama_bias": dict(
        family="Llama",
        make=lambda s: common(
            s, attention_bias=True, mlp_bias=True, head_dim=s.head_dim, pad_token_id=3
        ),
    ),
    "llama3_rope": dict(
        family="Llama",
        long=True,
        sizes=dict(heads=2, kv=1, head_dim=16),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            tie_word_embeddings=True,
            **scaled(
                s,
                8 * s.original,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "rope_linear": dict(
        family="Llama",
        long=True,
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            tie_word_embeddings=True,
            **scaled(s, 2048, rope_type="linear", factor=4.0),
        ),
    ),
    "rope_dynamic": dict(
        family="Llama",
        long=True,
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            tie_word_embeddings=True,
            **scaled(s, s.original, rope_type="dynamic", factor=2.0),
        ),
    ),
    "rope_yarn": dict(
        family="Llama",
        long=True,
        sizes=dict(heads=2, kv=1, head_dim=16),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            tie_word_embeddings=True,
            rope_theta=500.0,
            **scaled(s, s.original, rope_type="yarn", factor=8.0),
        ),
    ),
    "rope_yarn_mscale": dict(
        family="Llama",
        long=True,
        sizes=dict(heads=2, kv=1, head_dim=16),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            tie_word_embeddings=True,
            rope_theta=500.0,
            **scaled(
                s,
                10 * s.original,
                rope_type="yarn",
                factor=10.0,
                mscale=0.707,
                mscale_all_dim=1.1,
                beta_fast=4.0,
                beta_slow=0.5,
                truncate=False,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "qwen2_yarn": dict(
        family="Qwen2",
        long=True,
        square=True,
        sizes=dict(hidden=32, intermediate=20, heads=2, kv=1),
        make=lambda s: common(
            s,
            tie_word_embeddings=True,
            rope_theta=500.0,
            **scaled(
                s,
                8 * s.original,
                type="yarn",
                factor=8.0,
                attention_factor=1.3,
                beta_fast=6.0,
                beta_slow=1.0,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "smollm3": dict(
        family="SmolLM3",
        square=True,
        sizes=dict(hidden=24, intermediate=20),
        make=lambda s: common(
            s, no_rope_layers=[i % 2 for i in range(s.layers)], rope_theta=2e6, pad_token_id=4
        ),
    ),
    "smollm3_window": dict(
        drop=["layer_types"],
        family="SmolLM3",
        square=True,
        sizes=dict(hidden=24, intermediate=20, layers=2),
        make=lambda s: common(
            s,
            no_rope_layer_interval=2,
            use_sliding_window=True,
            sliding_window=s.window,
            tie_word_embeddings=False,
            pad_token_id=4,
        ),
    ),
    "qwen2": dict(
        family="Qwen2",
        square=True,
        sizes=dict(hidden=30, heads=5, kv=1, intermediate=20),
        make=lambda s: common(s, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True),
    ),
    "qwen2_window": dict(
        family="Qwen2",
        square=True,
        sizes=dict(hidden=24, intermediate=20, layers=2),
        make=lambda s: common(
            s, use_sliding_window=True, sliding_window=s.window, max_window_layers=1
        ),
    ),
    "qwen3": dict(
        family="Qwen3",
        make=lambda s: common(
            s, head_dim=s.head_dim, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True
        ),
    ),
    "mistral_nemo": dict(
        family="Mistral",
        make=lambda s: common(s, head_dim=s.head_dim, sliding_window=None, rope_theta=1e6),
    ),
    "mistral_window": dict(
        family="Mistral",
        square=True,
        sizes=dict(hidden=24, intermediate=20),
        make=lambda s: common(s, sliding_window=s.window),
    ),
    "gemma": dict(
        family="Gemma",
        make=lambda s: common(s, head_dim=s.head_dim, pad_token_id=0, rms_norm_eps=1e-6),
    ),
    "gemma2": dict(
        drop=["layer_types"],
        family="Gemma2",
        gains=dict(q_proj=2.5, k_proj=1.5),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=0,
            rms_norm_eps=1e-6,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0,
            query_pre_attn_scalar=2 * s.head_dim - 4,
            sliding_window=s.window,
        ),
    ),
    "gemma3": dict(
        drop=["layer_types", "_sliding_window_pattern"],
        family="Gemma3",
        config="Gemma3Text",
        sizes=dict(layers=3),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=0,
            rms_norm_eps=1e-6,
            query_pre_attn_scalar=s.head_dim + 5,
            sliding_window=s.window,
            rope_theta=1e6,
            rope_local_base_freq=1e4,
            sliding_window_pattern=3,
        ),
    ),
    "gemma3_linear": dict(
        family="Gemma3",
        config="Gemma3Text",
        long=True,
        sizes=dict(layers=2),
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=0,
            rms_norm_eps=1e-6,
            query_pre_attn_scalar=s.head_dim,
            sliding_window=s.window,
            rope_theta=1e5,
            rope_local_base_freq=500.0,
            layer_types=alternating(s, 2),
            rope_scaling=dict(rope_type="linear", factor=8.0),
            final_logit_softcapping=4.0,
        ),
    ),
    "deepseek_v3": dict(  # 4.57 scores experts of other groups 0, which may be the greatest score
        transformers="5.23.0",
        family="DeepseekV3",
        sizes=dict(experts=8, top_k=3, layers=3),
        gains={"mlp.gate": 2.0},
        make=lambda s: latent(
            s,
            q_lora_rank=10,
            **grouped_experts(
                s,
                n_group=4,
                topk_group=2,
                n_shared_experts=2,
                routed_scaling_factor=2.5,
                norm_topk_prob=True,
            ),
        ),
    ),
    "deepseek_v3_yarn": dict(  # dense; scores scaled by mscale_all_dim, cosines by mscale
        family="DeepseekV3",
        long=True,
        make=lambda s: latent(
            s,
            q_lora_rank=10,
            first_k_dense_replace=s.layers,
            **scaled(
                s,
                s.original * 8,
                type="yarn",
                factor=8.0,
                original_max_position_embeddings=s.original,
                mscale=1.0,
                mscale_all_dim=0.6,
            ),
        ),
    ),
    "deepseek_v3_whole": dict(  # dense; queries from one map, rotary pairs of two halves, biases
        family="DeepseekV3",
        make=lambda s: latent(
            s,
            q_lora_rank=None,
            rope_interleave=False,
            attention_bias=True,
            first_k_dense_replace=s.layers,
        ),
    ),
    "gemma4": dict(  # keys and values from one map, two head sizes
        transformers="5.23.0",
        drop=["per_layer_config"],
        more=dict(global_head_dim=12, num_global_key_value_heads=1),
        family="Gemma4",
        config="Gemma4Text",
        sizes=dict(layers=3),
        make=lambda s: gemma4(
            s,
            global_head_dim=12,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            hidden_size_per_layer_input=0,
            layer_types=["full_attention", "sliding_attention", "full_attention"],
            final_logit_softcapping=3.0,
        ),
    ),
    "gemma4_moe": dict(  # experts in parallel to each dense MLP
        transformers="5.23.0",
        family="Gemma4",
        config="Gemma4Text",
        sizes=dict(layers=3, heads=2, kv=1),
        gains={"router.proj": 6.0},
        make=lambda s: gemma4(
            s,
            global_head_dim=12,
            hidden_size_per_layer_input=0,
            enable_moe_block=True,
            num_experts=s.experts,
            top_k_experts=s.top_k,
            moe_intermediate_size=s.expert,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        ),
    ),
    "gemma4_shared": dict(  # a second embedding, keys of earlier layers, wider MLPs
        transformers="5.23.0",
        family="Gemma4",
        config="Gemma4Text",
        sizes=dict(layers=6, heads=2, kv=1),
        make=lambda s: gemma4(
            s,
            global_head_dim=16,
            hidden_size_per_layer_input=6,
            vocab_size_per_layer_input=s.vocab,
            num_kv_shared_layers=3,
            use_double_wide_mlp=True,
            layer_types=["sliding_attention", "full_attention"] * 3,
        ),
    ),
    "phi3": dict(
        family="Phi3",
        square=True,
        sizes=dict(hidden=24, intermediate=20),
        make=lambda s: common(s, sliding_window=s.window, pad_token_id=6),
    ),
    "phi3_longrope": dict(
        family="Phi3",
        square=True,
        long=True,
        sizes=dict(hidden=32, intermediate=20),
        make=lambda s: common(
            s,
            partial_rotary_factor=0.75,
            max_position_embeddings=16 * s.original,
            original_max_position_embeddings=s.original,
            pad_token_id=6,
            tie_word_embeddings=True,
            rope_scaling=longrope(s, 0.75),
        ),
    ),
    "olmo2": dict(
        family="Olmo2",
        square=True,
        sizes=dict(hidden=24, intermediate=20),
        make=lambda s: common(s, pad_token_id=1, rms_norm_eps=1e-6, rope_theta=5e5),
    ),
    "olmo3": dict(
        drop=["layer_types"],
        family="Olmo3",
        square=True,
        sizes=dict(hidden=24, intermediate=20, layers=4),
        make=lambda s: common(
            s, pad_token_id=1, rms_norm_eps=1e-6, rope_theta=5e5, sliding_window=s.window
        ),
    ),
    "olmo3_yarn": dict(
        family="Olmo3",
        square=True,
        long=True,
        sizes=dict(hidden=32, intermediate=20, heads=2, kv=1),
        make=lambda s: common(
            s,
            pad_token_id=1,
            rope_theta=5e5,  # in this form 5.23 would use another theta only in full layers
            attention_bias=True,
            sliding_window=s.window,
            layer_types=alternating(s, 2),
            **scaled(
                s,
                8 * s.original,
                rope_type="yarn",
                factor=8.0,
                attention_factor=1.2079441541679836,
                beta_fast=32.0,
                beta_slow=1.0,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "seed_oss": dict(
        family="SeedOss",
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=1,
            rms_norm_eps=1e-6,
            rope_theta=1e7,
            attention_dropout=0.0,
            residual_dropout=0.0,
        ),
    ),
    "seed_oss_bias": dict(
        family="SeedOss",
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=1,
            attention_bias=False,
            attention_out_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            attention_dropout=0.0,
            residual_dropout=0.0,
        ),
    ),
    "granite": dict(
        family="Granite",
        square=True,
        sizes=dict(hidden=24, intermediate=20),
        make=lambda s: common(
            s,
            embedding_multiplier=6.0,
            residual_multiplier=0.22,
            attention_multiplier=0.21,
            logits_scaling=3.0,
            tie_word_embeddings=True,
            pad_token_id=0,
        ),
    ),
    "glm": dict(
        family="Glm",
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            partial_rotary_factor=0.5,
            pad_token_id=5,
            rms_norm_eps=1.5625e-7,
        ),
    ),
    "glm4": dict(
        family="Glm4",
        make=lambda s: common(
            s, head_dim=s.head_dim, partial_rotary_factor=0.5, pad_token_id=5, attention_bias=False
        ),
    ),
    "internlm2": dict(
        family="Llama",
        square=True,
        long=True,
        convert="internlm2",
        sizes=dict(hidden=32, intermediate=20),
        make=lambda s: common(
            s,
            pad_token_id=2,
            rope_theta=1e6,
            **scaled(s, s.original, rope_type="dynamic", factor=2.0),
        ),
    ),
    "internlm3": dict(
        family="Qwen2",
        long=True,
        convert="internlm3",
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            pad_token_id=2,
            rope_theta=5e7,
            **scaled(s, s.original, rope_type="dynamic", factor=6.0),
        ),
    ),
    "mixtral": dict(
        family="Mixtral",
        square=True,
        sizes=dict(heads=2, kv=1, expert=12),
        gains=dict(gate=3.0),
        make=lambda s: common(
            s,
            intermediate_size=s.expert,
            num_local_experts=s.experts,
            num_experts_per_tok=s.top_k,
            router_aux_loss_coef=AUX_COEF,
            sliding_window=None,
            rope_theta=1e6,
        ),
    ),
    "qwen2_moe": dict(
        family="Qwen2Moe",
        square=True,
        sizes=dict(heads=2, kv=1, experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        make=lambda s: common(
            s,
            **experts(
                s,
                shared_expert_intermediate_size=s.shared,
                decoder_sparse_step=2,
                norm_topk_prob=False,
                pad_token_id=7,
            ),
        ),
    ),
    "qwen2_moe_norm": dict(
        family="Qwen2Moe",
        square=True,
        sizes=dict(heads=2, kv=1),
        gains={"mlp.gate": 3.0},
        make=lambda s: common(
            s,
            **experts(
                s,
                shared_expert_intermediate_size=s.shared,
                norm_topk_prob=True,
                qkv_bias=True,
                use_sliding_window=True,
                sliding_window=s.window,
            ),
        ),
    ),
    "qwen2_moe_layers": dict(
        transformers="5.23.0",
        family="Qwen2Moe",
        square=True,
        sizes=dict(heads=2, kv=1),
        gains={"mlp.gate": 3.0},
        make=lambda s: common(
            s,
            **experts(
                s,
                shared_expert_intermediate_size=s.shared,
                norm_topk_prob=True,
                use_sliding_window=True,
                sliding_window=s.window,
            ),
        ),
    ),
    "qwen3_moe": dict(
        family="Qwen3Moe",
        sizes=dict(experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        make=lambda s: common(
            s,
            **experts(
                s,
                head_dim=s.head_dim,
                norm_topk_prob=True,
                mlp_only_layers=[0],
                tie_word_embeddings=True,
            ),
        ),
    ),
    "glm4_moe": dict(
        family="Glm4Moe",
        sizes=dict(experts=8, top_k=3, layers=3),
        gains={"mlp.gate": 2.0},
        make=lambda s: common(
            s,
            **grouped_experts(
                s,
                head_dim=s.head_dim,
                pad_token_id=3,
                n_group=4,
                topk_group=2,
                n_shared_experts=2,
                routed_scaling_factor=2.5,
                norm_topk_prob=True,
                use_qk_norm=True,
                attention_bias=True,
                partial_rotary_factor=0.5,
            ),
        ),
    ),
    "glm4_moe_plain": dict(  # one group, weights not normalised, no norms of heads
        family="Glm4Moe",
        sizes=dict(experts=5, top_k=2),
        gains={"mlp.gate": 2.0},
        make=lambda s: common(
            s,
            **grouped_experts(
                s,
                head_dim=s.head_dim,
                norm_topk_prob=False,
                first_k_dense_replace=0,
                partial_rotary_factor=1.0,
            ),
        ),
    ),
    "gpt_oss": dict(
        transformers="5.23.0",
        family="GptOss",
        sizes=dict(experts=5, expert=12),
        gains={"mlp.router": 3.0, "experts.gate_up_proj": 5.0},
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            intermediate_size=s.expert,
            num_local_experts=s.experts,
            num_experts_per_tok=s.top_k,
            router_aux_loss_coef=AUX_COEF,
            sliding_window=s.window,
            rope_parameters=dict(rope_type="default", rope_theta=500.0),
            pad_token_id=3,
        ),
    ),
    "gpt_oss_mxfp4": dict(
        family="GptOss",
        aux=False,
        mxfp4=True,
        sizes=dict(hidden=64, expert=32, experts=3, heads=2, kv=1, layers=1),
        gains={"mlp.router": 3.0},
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            intermediate_size=s.expert,
            num_local_experts=s.experts,
            num_experts_per_tok=s.top_k,
            sliding_window=s.window,
            rope_theta=500.0,
            **scaled(
                s,
                8 * s.original,
                rope_type="yarn",
                factor=8.0,
                truncate=False,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "gpt_oss_yarn": dict(
        family="GptOss",
        aux=False,  # 4.57.6 computes this loss from scores instead of logits
        long=True,
        sizes=dict(experts=4, expert=8, heads=2, kv=1, head_dim=16),
        gains={"mlp.router": 3.0},
        make=lambda s: common(
            s,
            head_dim=s.head_dim,
            intermediate_size=s.expert,
            num_local_experts=s.experts,
            num_experts_per_tok=s.top_k,
            router_aux_loss_coef=AUX_COEF,
            sliding_window=s.window,
            rope_theta=500.0,
            layer_types=alternating(s, 2)[::-1],
            **scaled(
                s,
                8 * s.original,
                rope_type="yarn",
                factor=8.0,
                beta_fast=4.0,
                beta_slow=0.5,
                truncate=False,
                original_max_position_embeddings=s.original,
            ),
        ),
    ),
    "qwen3_next": dict(
        drop=["layer_types"],
        family="Qwen3Next",
        long=True,
        sizes=dict(layers=3, head_dim=16, experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        make=lambda s: common(
            s,
            **experts(
                s,
                **linear(s, interval=3),
                head_dim=s.head_dim,
                shared_expert_intermediate_size=s.shared,
                mlp_only_layers=[0],
                norm_topk_prob=True,
                rms_norm_eps=1e-6,
                rope_theta=1e7,
                pad_token_id=7,
            ),
        ),
    ),
    "qwen3_5": dict(
        transformers="5.23.0",
        family="Qwen3_5",
        config="Qwen3_5Text",
        long=True,
        sizes=dict(layers=3, head_dim=16),
        make=lambda s: common(
            s,
            **linear(s, layer_types=["full_attention", "linear_attention", "linear_attention"]),
            head_dim=s.head_dim,
            rms_norm_eps=1e-6,
            rope_parameters=dict(
                rope_type="default",
                rope_theta=1e7,
                partial_rotary_factor=0.5,
                mrope_section=[2, 1, 1],
                mrope_interleaved=True,
            ),
            tie_word_embeddings=True,
            pad_token_id=7,
        ),
    ),
    "qwen3_5_moe": dict(
        transformers="5.23.0",
        family="Qwen3_5Moe",
        config="Qwen3_5MoeText",
        long=True,
        sizes=dict(layers=2, head_dim=16, experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        make=lambda s: no_dense_mlp(
            common(
                s,
                **experts(
                    s,
                    **linear(s, layer_types=["linear_attention", "full_attention"]),
                    head_dim=s.head_dim,
                    shared_expert_intermediate_size=s.shared,
                    rms_norm_eps=1e-6,
                    rope_theta=1e7,
                ),
            )
        ),
    ),
    "olmo_hybrid": dict(
        transformers="5.23.0",
        family="OlmoHybrid",
        square=True,
        long=True,
        convert="olmo_hybrid",
        sizes=dict(hidden=24, intermediate=20, layers=3),
        make=lambda s: common(
            s,
            **linear(s, layer_types=["linear_attention", "full_attention", "linear_attention"]),
            rope_parameters=dict(rope_type="default", rope_theta=None),
            rms_norm_eps=1e-6,
            pad_token_id=1,
        ) | dict(rope_theta=None),
    ),
    "olmo_hybrid_rope": dict(
        transformers="5.23.0",
        family="OlmoHybrid",
        square=True,
        convert="olmo_hybrid",
        sizes=dict(hidden=24, intermediate=20, layers=2),
        make=lambda s: common(
            s,
            linear_num_key_heads=2,
            linear_num_value_heads=2,
            linear_allow_neg_eigval=False,
            rope_theta=5e5,
            pad_token_id=1,
        ),
    ),
    "kimi_linear": dict(  # heads of both kinds differ in number and size; groups of experts
        transformers="5.23.0",
        family="KimiLinear",
        long=True,
        convert="kimi_linear",
        drop=KIMI_LINEAR_NEWER,
        sizes=dict(original=8, layers=3, experts=6, top_k=3),
        gains={"mlp.gate": 1.5},
        make=lambda s: kimi_linear(
            s,
            **kimi_layers(s, attending=[2]),
            first_k_dense_replace=2,
            num_expert_group=3,
            topk_group=2,
            num_shared_experts=2,
            routed_scaling_factor=2.5,
            pad_token_id=7,
        ),
    ),
    "kimi_linear_types": dict(  # in the form of Transformers 5; queries from a latent, biases
        transformers="5.23.0",
        family="KimiLinear",
        long=True,
        convert="kimi_linear",
        sizes=dict(original=8, layers=2, experts=6, top_k=2),
        gains={"mlp.gate": 1.5},
        make=lambda s: kimi_linear(
            s,
            layer_types=["full_attention", "linear_attention"],
            mlp_layer_types=["sparse", "dense"],
            linear_num_heads=2,
            linear_head_dim=6,
            linear_conv_kernel_dim=3,
            q_lora_rank=10,
            attention_bias=True,
            moe_renormalize=False,
        ),
    ),
    "granite_hybrid": dict(  # experts in parallel to an MLP, factors, no rotary
        family="GraniteMoeHybrid",
        square=True,
        long=True,
        sizes=dict(hidden=24, layers=3, experts=5, top_k=2, original=8),
        gains={"router.layer": 1.5},
        make=lambda s: state_space(
            s,
            layer_types=["mamba", "attention", "mamba"],
            num_local_experts=s.experts,
            router_aux_loss_coef=AUX_COEF,
            embedding_multiplier=3.0,
            attention_multiplier=0.3,
            residual_multiplier=0.7,
            logits_scaling=2.0,
            position_embedding_type="nope",
            tie_word_embeddings=True,
            pad_token_id=7,
        ),
    ),
    "granite_hybrid_groups": dict(  # dense; groups of B and C, which 4.57 normalises as one
        transformers="5.23.0",
        family="GraniteMoeHybrid",
        square=True,
        long=True,
        sizes=dict(hidden=24, layers=2),
        make=lambda s: state_space(
            s,
            layer_types=["full_attention", "linear_attention"],
            num_local_experts=0,
            mamba_n_groups=2,
            mamba_proj_bias=True,
            mamba_conv_bias=False,
            attention_bias=True,
            time_step_limit=[0.3, 1.5],
            position_embedding_type="rope",
        ),
        aux=False,
    ),
    "nemotron_h": dict(  # the first published form: a pattern, MLP layers, no experts
        transformers="5.23.0",
        family="NemotronH",
        long=True,
        sizes=dict(hidden=24, layers=5, original=8),
        make=lambda s: nemotron(s, ["mamba", "mlp", "attention", "mlp", "mamba"]),
        drop=["layers_block_type"],
        more=dict(num_hidden_layers=5, hybrid_override_pattern="M-*-M"),
    ),
    "nemotron_h_experts": dict(  # expert groups after a map, a step that reaches its bound
        transformers="5.23.0",
        family="NemotronH",
        long=True,
        sizes=dict(hidden=24, layers=5, experts=6, top_k=3, original=8),
        gains={"mixer.gate": 3.0},
        make=lambda s: nemotron(
            s,
            ["moe", "linear_attention", "moe", "full_attention", "mlp"],
            n_routed_experts=s.experts,
            num_experts_per_tok=s.top_k,
            moe_intermediate_size=s.expert,
            moe_shared_expert_intermediate_size=s.shared,
            moe_latent_size=12,
            n_group=3,
            topk_group=2,
            routed_scaling_factor=1.7,
            time_step_min=0.5,
            use_bias=True,
            use_conv_bias=False,
        ),
    ),
    "lfm2": dict(
        family="Lfm2",
        square=True,
        sizes=dict(hidden=24, intermediate=33, layers=3),
        make=lambda s: common(
            s,
            norm_eps=1e-6,
            rope_theta=1e6,
            conv_L_cache=4,
            conv_bias=True,
            block_multiple_of=8,
            block_ffn_dim_multiplier=1.1,
            full_attn_idxs=[1],
            pad_token_id=5,
        ),
    ),
}


# Multimodal models, which get only text. Their vision towers are drawn too, and have no gradients.


def vision(model_type, **more):
    return (
        dict(
            model_type=model_type,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            image_size=8,
            patch_size=4,
        )
        | more
    )


def qwen_vision(s, **more):
    """What sees in Qwen's, and the tokens that stand for it."""
    return dict(
        vision_config=dict(
            depth=1,
            hidden_size=16,
            intermediate_size=16,
            num_heads=2,
            patch_size=4,
            out_hidden_size=s.hidden,
            num_position_embeddings=16,
        )
        | more,
        image_token_id=40,
        video_token_id=41,
        vision_start_token_id=42,
        vision_end_token_id=43,
    )


MODELS |= {
    "gemma3_vision": dict(
        family="Gemma3",
        composite=True,
        long=True,
        sizes=dict(layers=3),
        make=lambda s: dict(
            text_config=common(
                s,
                model_type="gemma3_text",
                head_dim=s.head_dim,
                pad_token_id=0,
                rms_norm_eps=1e-6,
                query_pre_attn_scalar=s.head_dim + 3,
                sliding_window=s.window,
                sliding_window_pattern=3,
                rope_theta=1e5,
                rope_local_base_freq=500.0,
                rope_scaling=dict(rope_type="linear", factor=8.0),
                final_logit_softcapping=3.0,  # which the head of a composite model ignores
            ),
            vision_config=vision("siglip_vision_model"),
            mm_tokens_per_image=4,
            image_token_index=40,
            boi_token_index=41,
            eoi_token_index=42,
        ),
    ),
    "mistral3": dict(
        family="Mistral3",
        composite=True,
        make=lambda s: dict(
            text_config=common(
                s, model_type="mistral", head_dim=s.head_dim, sliding_window=None, rope_theta=1e6
            ),
            vision_config=vision("pixtral", head_dim=8),
            image_token_index=10,
            vision_feature_layer=-1,
        ),
    ),
    "qwen3_vl": dict(
        family="Qwen3VL",
        composite=True,
        make=lambda s: dict(
            text_config=common(
                s,
                model_type="qwen3_vl_text",
                head_dim=s.head_dim,
                rms_norm_eps=1e-6,
                rope_theta=5e6,
                rope_scaling=dict(
                    mrope_interleaved=True, mrope_section=[2, 1, 1], rope_type="default"
                ),
                attention_bias=True,
                tie_word_embeddings=True,
            ),
            **qwen_vision(s, deepstack_visual_indexes=[0]),
            tie_word_embeddings=True,
        ),
    ),
    "qwen3_5_vision": dict(
        transformers="5.23.0",
        family="Qwen3_5",
        composite=True,
        long=True,
        sizes=dict(layers=2, head_dim=16),
        make=lambda s: dict(
            text_config=common(
                s,
                **linear(s, layer_types=["linear_attention", "full_attention"]),
                model_type="qwen3_5_text",
                head_dim=s.head_dim,
                rms_norm_eps=1e-6,
                rope_parameters=dict(
                    rope_type="default",
                    rope_theta=1e7,
                    partial_rotary_factor=0.5,
                    mrope_section=[2, 1, 1],
                    mrope_interleaved=True,
                ),
                pad_token_id=7,
            ),
            **qwen_vision(s),
        ),
    ),
    "qwen3_vl_moe": dict(
        family="Qwen3VLMoe",
        composite=True,
        sizes=dict(experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        make=lambda s: dict(
            text_config=common(
                s,
                model_type="qwen3_vl_moe_text",
                head_dim=s.head_dim,
                rms_norm_eps=1e-6,
                rope_theta=5e6,
                rope_scaling=dict(
                    mrope_interleaved=True, mrope_section=[2, 1, 1], rope_type="default"
                ),
                num_experts=s.experts,
                num_experts_per_tok=s.top_k,
                moe_intermediate_size=s.expert,
                mlp_only_layers=[0],
                tie_word_embeddings=True,
            ),
            **qwen_vision(s, deepstack_visual_indexes=[0]),
            tie_word_embeddings=True,
        ),
    ),
    "ministral3": dict(
        transformers="5.23.0",
        family="Ministral3",
        sizes=dict(heads=2, kv=1, head_dim=16, original=12),
        make=ministral3,
    ),
    "ministral3_vision": dict(
        transformers="5.23.0",
        family="Mistral3",
        composite=True,
        sizes=dict(heads=2, kv=1, head_dim=16, original=12),
        make=lambda s: dict(
            text_config=ministral3(s, model_type="ministral3", tie_word_embeddings=True),
            vision_config=vision("pixtral", head_dim=8),
            image_token_index=10,
            vision_feature_layer=-1,
            tie_word_embeddings=True,
        ),
    ),
    "qwen3_5_moe_vision": dict(
        transformers="5.23.0",
        family="Qwen3_5Moe",
        composite=True,
        long=True,
        convert="stacked_experts",
        sizes=dict(layers=2, head_dim=16, experts=6, top_k=3),
        gains={"mlp.gate": 3.0},
        aux=False,
        make=lambda s: dict(
            text_config=no_dense_mlp(
                common(
                    s,
                    **experts(
                        s,
                        **linear(s, layer_types=["linear_attention", "full_attention"]),
                        model_type="qwen3_5_moe_text",
                        head_dim=s.head_dim,
                        shared_expert_intermediate_size=s.shared,
                        rms_norm_eps=1e-6,
                        rope_theta=1e7,
                    ),
                )
            ),
            **qwen_vision(s),
        ),
    ),
    "gemma4_vision": dict(
        transformers="5.23.0",
        family="Gemma4",
        composite=True,
        sizes=dict(layers=4, heads=2, kv=1),
        make=lambda s: dict(
            text_config=gemma4(
                s,
                model_type="gemma4_text",
                global_head_dim=16,
                hidden_size_per_layer_input=6,
                vocab_size_per_layer_input=s.vocab,
                num_kv_shared_layers=2,
                layer_types=["sliding_attention", "full_attention"] * 2,
                final_logit_softcapping=3.0,
            ),
            vision_config=dict(
                model_type="gemma4_vision",
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                head_dim=8,
                patch_size=4,
                position_embedding_size=16,
            ),
        ),
    ),
}
for row in MODELS.values():
    row.setdefault("sizes", {})


# Computing everything in fp64.


class NoSingle(TorchDispatchMode):
    def __torch_dispatch__(self, function, kinds, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                raise AssertionError(f"{function} made a tensor of {x.dtype}")
        return result


@contextlib.contextmanager
def lifted():
    saved = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        with NoSingle():
            yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved[:3]
        torch.set_default_dtype(saved[3])


# Cases: lists of documents (ids, labels).


def draw(g, s, pad, length, prompt=0, every=0):
    ids = [g.randrange(s.vocab) for _ in range(length)]
    if pad is not None:  # lookups of the pad token have no gradient
        for place in range(3, length, 11):
            ids[place] = pad
    return ids, [-100 if i < prompt or (every and i % every == 0) else t for i, t in enumerate(ids)]


def cases(name, row, s, pad, seed):
    g = random.Random(f"texts of {name}/{seed}")
    if row.get("long"):
        n = s.original
        yield "one", [draw(g, s, pad, 208 + n)]
        yield (
            "packed",
            [
                draw(g, s, pad, 201 + n, prompt=20),
                draw(g, s, pad, n),
                draw(g, s, pad, 1),
                draw(g, s, pad, n + 1, every=3),
                draw(g, s, pad, 12, prompt=12),
            ],
        )
    else:
        yield "one", [draw(g, s, pad, 40)]
        yield (
            "packed",
            [
                draw(g, s, pad, 27, prompt=6),
                draw(g, s, pad, 1),
                draw(g, s, pad, 35, every=3),
                draw(g, s, pad, 9, prompt=9),
                draw(g, s, pad, 14),
            ],
        )


def positions_of(documents):
    """The last index of each document, and one or two more indices; at most seven."""
    out, start = set(), 0
    for ids, _ in documents:
        out |= (
            {start + len(ids) // 2, start + len(ids) - 1}
            if len(ids) > 20
            else {start + len(ids) - 1}
        )
        start += len(ids)
    return sorted(out | ({0, 1, start // 4, 3 * start // 4} if len(documents) == 1 else set()))


# Evaluation.


def decoder_of(model):
    return getattr(model.model, "language_model", model.model)


def fresh_rotary(model):
    """Restores the initial rotary embeddings, because those with dynamic scaling keep the longest
    length so far."""
    if not hasattr(model, "pristine"):
        model.pristine = {
            key: copy.deepcopy(module)
            for key, module in decoder_of(model).named_children()
            if key.startswith("rotary")
        }
        assert model.pristine or getattr(model.model, "rotary_emb", None) is None
    for key, module in model.pristine.items():
        setattr(decoder_of(model), key, copy.deepcopy(module))


@contextlib.contextmanager
def router_margin(model, seen):
    """Appends to `seen` the smallest distance of the k-th largest router logit from the next, over
    tokens and layers."""
    config = model.config.get_text_config()
    top_k = getattr(config, "num_experts_per_tok", None)
    top_k = top_k or getattr(config, "top_k_experts", None) or 0

    def margin(scores, k):
        ordered = scores.sort(-1, descending=True).values
        if k < scores.shape[-1]:
            seen.append((ordered[:, k - 1] - ordered[:, k]).min().item())

    def grouped(module, rows):  # of corrected sigmoids, groups before experts
        groups = model.config.n_group
        scores = torch.nn.functional.linear(rows, module.weight).sigmoid()
        scores = scores + module.e_score_correction_bias
        of_groups = scores.view(len(rows), groups, -1).topk(2, dim=-1).values.sum(-1)
        margin(of_groups, model.config.topk_group)
        best = of_groups.topk(model.config.topk_group, dim=-1).indices
        seen_groups = torch.zeros_like(of_groups).scatter(1, best, 1.0)
        size = scores.shape[-1] // groups
        margin(scores.masked_fill(seen_groups.repeat_interleave(size, 1) == 0, -1e9), top_k)

    def hook(module, inputs, logits):
        if hasattr(module, "e_score_correction_bias"):
            rows = inputs[0].detach().reshape(-1, module.weight.shape[1])
            return grouped(module, rows)
        if getattr(module, "bias", None) is not None:  # gpt-oss: returns scores, not logits
            logits = torch.nn.functional.linear(
                inputs[0].detach().reshape(-1, module.weight.shape[1]), module.weight, module.bias
            )
        if isinstance(logits, tuple):  # Transformers 5: logits, weights, choices
            logits = logits[0]
        ordered = logits.detach().sort(-1, descending=True).values
        seen.append((ordered[:, top_k - 1] - ordered[:, top_k]).min().item())

    handles = [
        m.register_forward_hook(hook)
        for key, m in model.named_modules()
        if key.endswith((".mlp.gate", ".mixer.gate", ".mlp.router", ".router.proj", ".router.layer", ".block_sparse_moe.gate"))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def gradients_of(model):
    return {
        key: (p.grad if p.grad is not None else torch.zeros_like(p)).detach().clone()
        for key, p in model.named_parameters()
        if decoder_of(model) is model.model or "language_model" in key or key == "lm_head.weight"
    }


def evaluate(model, documents, aux=None):
    """Evaluates each document by itself and adds up the losses; gradients are those of the mean
    over the predictions. With `aux` the documents are the rows of one batch, padded on the right,
    and aux times load_balancing_loss_func of that batch is added to the loss."""
    predictions = sum(sum(l != -100 for l in labels[1:]) for _, labels in documents)
    positions, start, total, aux_loss = positions_of(documents), 0, 0.0, None
    logits_out, lse_out, nll_out = {}, {}, []
    model.zero_grad(set_to_none=True)
    fresh_rotary(model)
    if aux is not None:
        longest = max(len(ids) for ids, _ in documents)
        rows = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in documents])
        mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in documents])
        targets = torch.tensor(
            [labels + [-100] * (longest - len(labels)) for _, labels in documents]
        )
        whole = model(
            rows, attention_mask=mask, labels=targets, use_cache=False, output_router_logits=True
        )
        assert model.router_aux_loss_coef == aux
        aux_loss = whole.aux_loss.item()
        whole.loss.backward()
    for row, (ids, labels) in enumerate(documents):
        if aux is None:
            fresh_rotary(model)
            logits = model(torch.tensor([ids]), use_cache=False).logits[0]
        else:
            logits = whole.logits[row, : len(ids)].detach()
        log_probs = torch.log_softmax(logits, -1)
        targets = torch.tensor(labels[1:] + [-100])
        nll = -log_probs.gather(1, targets.clamp(min=0)[:, None])[:, 0]
        chosen = targets != -100
        if bool(chosen.any()):
            loss = nll[chosen].sum()
            if aux is None:
                (loss / predictions).backward()
            total += loss.item()
        nll_out += [x if keep else None for x, keep in zip(nll.tolist(), chosen.tolist())]
        for p in positions:
            if start <= p < start + len(ids):
                logits_out[p] = logits[p - start, :8].tolist()
                lse_out[p] = torch.logsumexp(logits[p - start].detach(), -1).item()
        start += len(ids)
    loss = total / predictions
    if aux is not None:
        loss += aux * aux_loss
        assert (
            abs(loss - whole.loss.item())
            < (1e-12 if logits.dtype == torch.float64 else 1e-5) * loss
        )  # Transformers' own function
    output = {
        "loss": loss,
        "logits": [logits_out[p] for p in positions],
        "logsumexp": [lse_out[p] for p in positions],
    }
    rest = {
        "loss_sum": total,
        "predictions": predictions,
        "labels_counted": sum(sum(l != -100 for l in labels) for _, labels in documents),
        "nll": nll_out,
    }
    if aux is not None:
        rest |= {"moe_aux_loss_coef": aux, "aux_loss": aux_loss}
    stream = {
        "input_ids": sum((ids for ids, _ in documents), []),
        "labels": sum((labels for _, labels in documents), []),
        "positions": positions,
        "lengths": [len(ids) for ids, _ in documents],
    }
    return stream, output, rest, gradients_of(model)


# InternLM2 and InternLM3: the computation of Llama and Qwen2 under the names of the published
# files.


def to_internlm2(tensors, s):
    out, group = {}, s.heads // s.kv
    names = {
        "self_attn.o_proj": "attention.wo",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "feed_forward.w1",
        "mlp.up_proj": "feed_forward.w3",
        "mlp.down_proj": "feed_forward.w2",
        "embed_tokens": "tok_embeddings",
        "lm_head": "output",
    }
    for key, t in tensors.items():
        if ".q_proj." in key:
            q, k, v = (
                tensors[key.replace("q_proj", part)].reshape(s.kv, -1, s.head_dim, s.hidden)
                for part in ("q_proj", "k_proj", "v_proj")
            )
            assert q.shape[1] == group
            out[key.replace("self_attn.q_proj", "attention.wqkv")] = (
                torch.cat((q, k, v), 1).reshape(-1, s.hidden).contiguous()
            )
        elif ".k_proj." not in key and ".v_proj." not in key:
            for a, b in names.items():
                key = key.replace(a, b)
            out[key] = t
    return out


def internlm2_config(c, s):
    return {
        "architectures": ["InternLM2ForCausalLM"],
        "attn_implementation": "eager",
        "auto_map": {
            "AutoConfig": "configuration_internlm2.InternLM2Config",
            "AutoModelForCausalLM": "modeling_internlm2.InternLM2ForCausalLM",
            "AutoModel": "modeling_internlm2.InternLM2ForCausalLM",
        },
        "bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": c.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": c.intermediate_size,
        "max_position_embeddings": c.max_position_embeddings,
        "model_type": "internlm2",
        "num_attention_heads": c.num_attention_heads,
        "num_hidden_layers": c.num_hidden_layers,
        "num_key_value_heads": c.num_key_value_heads,
        "pad_token_id": c.pad_token_id,
        "pretraining_tp": 1,
        "rms_norm_eps": c.rms_norm_eps,
        "rope_scaling": {"type": "dynamic", "factor": c.rope_scaling["factor"]},
        "rope_theta": c.rope_theta,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformers_version": "4.41.0",
        "use_cache": True,
        "vocab_size": c.vocab_size,
    }


def internlm3_config(c, s):
    return {
        "architectures": ["InternLM3ForCausalLM"],
        "attention_dropout": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_internlm3.InternLM3Config",
            "AutoModel": "modeling_internlm3.InternLM3Model",
            "AutoModelForCausalLM": "modeling_internlm3.InternLM3ForCausalLM",
        },
        "bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "hidden_size": c.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": c.intermediate_size,
        "max_position_embeddings": c.max_position_embeddings,
        "model_type": "internlm3",
        "num_attention_heads": c.num_attention_heads,
        "num_hidden_layers": c.num_hidden_layers,
        "num_key_value_heads": c.num_key_value_heads,
        "pad_token_id": c.pad_token_id,
        "qkv_bias": True,
        "rms_norm_eps": c.rms_norm_eps,
        "rope_scaling": {"factor": c.rope_scaling["factor"], "rope_type": "dynamic"},
        "rope_theta": c.rope_theta,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformers_version": "4.47.1",
        "use_cache": True,
        "vocab_size": c.vocab_size,
    }


def split_experts(tensors):
    """Splits a layer's experts, which Transformers 5 has as one tensor, into the tensors that it
    saves, expert by expert. In the one tensor gate is above up."""
    out = {}
    for key, t in tensors.items():
        stem, fused, maps = key.partition(".experts.")
        if not fused or t.dim() != 3:
            out[key] = t
            continue
        maps = ("gate_proj", "up_proj") if maps == "gate_up_proj" else (maps,)
        for i, expert in enumerate(t):
            for name, part in zip(maps, expert.chunk(len(maps))):
                out[f"{stem}.experts.{i}.{name}.weight"] = part.contiguous()
    return out


def to_olmo_hybrid(tensors, s):
    """Converts to the published files, which have three convolutions, for queries, keys and values.
    Transformers 5.23 reads these, but saves its own convolution cut into three of equal length."""
    out = {}
    for key, t in tensors.items():
        stem, linear, rest = key.partition(".linear_attn.")
        layer = key[: key.find(".", len("model.layers."))]
        if linear and rest.startswith("conv1d."):
            keys, _ = tensors[f"{stem}.linear_attn.q_proj.weight"].shape
            parts = t.split([keys, keys, t.shape[0] - 2 * keys])
            for name, part in zip("qkv", parts):
                out[f"{stem}.linear_attn.{name}_{rest}"] = part.contiguous()
        elif f"{layer}.linear_attn.A_log" in tensors:
            for a, b in (
                ("input_layernorm", "attention_layer_norm"),
                ("post_attention_layernorm", "feedforward_layer_norm"),
            ):
                key = key.replace(a, b)
            out[key] = t
        else:
            out[key] = t
    return out


def to_kimi_linear(tensors, s):
    """Converts to the published files' names. Transformers 5.23 reads these, but saves a dense MLP
    as if it were experts."""
    out = {}
    for key, t in split_experts(tensors).items():
        stem, _, rest = key.partition(".self_attn.conv1d.")
        layer = key[: key.find(".", len("model.layers."))]
        if rest:
            for name, part in zip("qkv", t.chunk(3)):
                out[f"{stem}.self_attn.{name}_conv1d.{rest}"] = part.contiguous()
            continue
        key = key.replace(".forget_gate.", ".")
        if f"{layer}.mlp.gate.weight" in tensors:
            key = key.replace(".mlp.", ".block_sparse_moe.")
            for a, b in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
                key = key.replace(f"{a}_proj", b) if ".experts." in key else key
        out[key] = t
    return out


CONVERT = {
    "kimi_linear": (to_kimi_linear, None),
    "olmo_hybrid": (to_olmo_hybrid, None),
    "stacked_experts": (lambda tensors, s: tensors, None),  # stacked as published and in 5.23
    "internlm2": (to_internlm2, internlm2_config),
    "internlm3": (lambda tensors, s: tensors, internlm3_config),
}


# Making a model.


def around_zero(key, family):
    """Draws biases, and norms that multiply by 1 + w."""
    one_more = family in ("Gemma", "Gemma2", "Gemma3", "Qwen3Next", "Qwen3_5", "Qwen3_5Moe")
    return key.endswith("bias") or (one_more and "linear_attn." not in key)


def parameters_and_scales(model):
    """The tensors in a checkpoint: parameters, and buffers that are not trained."""
    yield from model.named_parameters()
    for key, buffer in model.named_buffers():
        if key.endswith(("layer_scalar", "e_score_correction_bias")):
            yield key, buffer


def drawn(key, shape, row, family):
    """The distribution from which a tensor is drawn, by its name."""
    if key.endswith("A_log"):  # decays of heads that forget after a few tokens, and after hundreds
        mean, deviation = -3.0, 1.5
    elif len(shape) == 1:
        mean, deviation = 0.0 if around_zero(key, family) else 1.0, 0.2
    elif "embed_tokens" in key or "embeddings" in key:
        mean, deviation = 0.0, 0.5
    else:
        gains = (
            gain
            for part, gain in row.get("gains", {}).items()
            if f"{part}.weight" in key or key.endswith(part)
        )
        mean, deviation = 0.0, 1.25 * next(gains, 1.0) / shape[-1] ** 0.5
    return {"shape": list(shape), "mean": mean, "deviation": deviation}


def fill(model, row, family, seed):
    with torch.no_grad():
        for key, p in parameters_and_scales(model):
            numbers = seeded_weights.values(seed, key, **drawn(key, p.shape, row, family))
            p.copy_(torch.tensor(numbers).view(p.shape))


def four_bits(model, g):
    """The experts' tensors in four bits, from random blocks and scales; returned by their names."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    packed = {}
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() != 3:
                continue
            experts, inputs, outputs = p.shape
            shape = experts, outputs, inputs // 32
            blocks = torch.randint(256, (*shape, 16), generator=g, dtype=torch.uint8)
            scales = torch.randint(121, 126, shape, generator=g, dtype=torch.uint8)
            packed[key + "_blocks"], packed[key + "_scales"] = blocks, scales
            p.copy_(convert_moe_packed_tensors(blocks, scales))
    return packed


def pack(folder, packed):
    path = os.path.join(folder, "model.safetensors")
    kept = {k: t for k, t in load_file(path).items() if k + "_blocks" not in packed}
    save_file(kept | packed, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    config = json.load(open(path)) | {
        "quantization_config": {
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
            "quant_method": "mxfp4",
        }
    }
    with open(path, "w") as f:
        f.write(json.dumps(config, indent=2) + "\n")


def write(path, golden):
    def lines(value, indent):
        if isinstance(value, dict) and indent < 5:
            return (
                "{\n"
                + ",\n".join(
                    " " * indent + json.dumps(k) + ": " + lines(v, indent + 1)
                    for k, v in value.items()
                )
                + "}"
            )
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(lines(v, indent + 1) for v in value) + "]"
        return json.dumps(value)

    with open(path, "w") as f:
        f.write(lines(golden, 0) + "\n")


def worst(a, b):
    """||a - b|| / ||b|| of the tensor for which it is largest, and that tensor's name."""
    return max(
        ((a[key].double() - b[key]).norm().item() / (b[key].norm().item() or 1.0), key) for key in b
    )


def attempt(name, row, seed, scale, out, draw_number):
    s, family = sizes(name, row, seed, scale), row["family"]
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    make_config = getattr(transformers, row.get("config", family) + "Config")
    architecture = family + (
        "ForConditionalGeneration" if row.get("composite") else "ForCausalLM"
    )
    Model = getattr(transformers, architecture)
    options = row["make"](s)
    eager = {"attn_implementation": "eager"}
    if transformers.__version__.startswith("5"):
        eager["experts_implementation"] = "eager"
    torch.manual_seed(0)
    model = Model(make_config(**options, **eager))
    draw = f"{name}/{seed}/{draw_number}"
    fill(model, row, family, draw)
    packed, weights_path = {}, os.path.join(folder, "model.safetensors")
    rename, own_config = CONVERT.get(row.get("convert"), (None, None))
    if row.get("mxfp4"):
        packed = four_bits(model, torch.Generator().manual_seed(draw_number))
    model.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
    if row.get("drop") or row.get("more"):
        path = os.path.join(folder, "config.json")
        written = {
            key: value
            for key, value in (json.load(open(path)) | row.get("more", {})).items()
            if key not in row.get("drop", [])
        }
        with open(path, "w") as f:
            f.write(json.dumps(written, indent=2) + "\n")

    described = None
    if rename and not own_config:
        tensors = {k: p.detach() for k, p in parameters_and_scales(model)}
        save_file(rename(tensors, s), weights_path, {"format": "pt"})
    if not own_config and not packed:
        described = seeded_weights.fill_file(
            weights_path, draw, lambda key, shape: drawn(key, shape, row, family)
        )
    single = Model.from_pretrained(folder, dtype=FLOAT32, **eager).eval()
    weights = {key: p.detach().double() for key, p in parameters_and_scales(single)}
    if rename and not own_config:  # no tensor of the file may be ignored
        held = rename({k: p.detach() for k, p in parameters_and_scales(single)}, s)
        written = load_file(weights_path)
        assert held.keys() == written.keys()
        assert all(torch.equal(t, written[k]) for k, t in held.items())
    with lifted():
        double = Model(transformers.AutoConfig.from_pretrained(folder, **eager)).eval()
        with torch.no_grad():
            for key, p in parameters_and_scales(double):
                p.copy_(weights.pop(key))
        assert not weights
    pad = double.config.get_text_config().pad_token_id
    # Nemotron-H's embedding has no padding id.
    assert double.get_input_embeddings().padding_idx == (None if family == "NemotronH" else pad)
    assert pad == options.get("text_config", options).get("pad_token_id")

    todo = [(case, documents, None) for case, documents in cases(name, row, s, pad, seed)]
    if hasattr(single.config, "router_aux_loss_coef") and row.get("aux", True):
        todo.append(("aux", todo[1][1], AUX_COEF))
    entries, margins = [], []
    for case, documents, aux in todo:
        with (
            router_margin(double, [] if aux else margins),
            lifted(),
        ):  # a padded row has tokens past its end, which the other cases lack
            stream, output, rest, grads = evaluate(double, documents, aux)
        if margins and min(margins) <= MARGIN:
            print(f"{name}: router choices {min(margins):.1e} from a tie, drawn again")
            return False
        _, output32, _, grads32 = evaluate(single, documents, aux)
        assert abs(output32["loss"] - output["loss"]) < 1e-5 * output["loss"], (
            output32["loss"],
            output["loss"],
        )
        noise, where = worst(grads32, grads)
        if noise >= NOISE:
            print(f"{name}: gradients of fp32 {noise:.1e} off, drawn again")
            return False
        unused = sorted(key for key, grad in grads.items() if not grad.any())
        # Families whose files have the experts as one tensor, too.
        if family not in ("GptOss", "Gemma4", "Qwen3VLMoe"):
            if row.get("convert") != "stacked_experts":
                grads = split_experts(grads)
        if row.get("convert"):
            grads = CONVERT[row["convert"]][0](grads, s)
        norms = {key: grad.norm().item() for key, grad in grads.items()}
        output |= {"grad_norm": norms, "grad_norm_total": sum(x * x for x in norms.values()) ** 0.5}
        entry = {
            "name": case,
            "input": stream,
            "output": output,
            **rest,
            "loss_fp32": output32["loss"],
            "gradient_noise_fp32": noise,
        }
        if case != "one":
            entry["gradients"] = {key: sketch.sketch(key, grad) for key, grad in grads.items()}
        entries.append(entry)
        print(
            f"{name:16} {case:6} loss {output['loss']:.6f} fp32 "
            f"{output32['loss'] - output['loss']:+.1e} gradients {noise:.1e} {where}"
            + (f" zero: {' '.join(unused)}" if unused else ""),
            flush=True,
        )
    if own_config:
        save_file(rename(load_file(weights_path), s), weights_path, {"format": "pt"})
        with open(os.path.join(folder, "config.json"), "w") as f:
            f.write(json.dumps(own_config(double.config, s), indent=2) + "\n")
    if packed:
        pack(folder, packed)
    golden = {"dtype": "float64", "transformers": architecture}
    if described:
        golden["weights"] = described
    if margins:
        golden["router_margin"] = min(margins)
    golden["cases"] = entries
    write(os.path.join(folder, "golden.json"), golden)
    return True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(MODELS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", default=HERE)
    args = parser.parse_args()
    if (args.seed or args.scale != 1) and os.path.abspath(args.out) == HERE:
        sys.exit("--seed and --scale are for another folder: --out DIR")
    transformers.logging.set_verbosity_error()
    made_by = {name: row.get("transformers", "4.57.6") for name, row in MODELS.items()}
    here = [name for name in MODELS if made_by[name] == transformers.__version__]
    for name in args.only or here:
        if name not in here:
            sys.exit(f"{name} is made by Transformers {made_by[name]}")
        draw_number = 0
        while not attempt(name, MODELS[name], args.seed, args.scale, args.out, draw_number):
            draw_number += 1


if __name__ == "__main__":
    main()
