"""Families of models that differ in kind: what is in the others is in these too."""

KINDS = [
    "deepseek_v3",
    "gemma3",
    "gemma4_shared",
    "gpt_oss",
    "granite_hybrid",
    "kimi_linear",
    "lfm2",
    "nemotron_h",
    "olmo_hybrid",
    "phi3",
    "qwen3_5_moe",
    "qwen3_next",
]

# The others, as `full` of a test names cases (third_party/precompiled/together.bzl).
OTHERS = "!(%s)" % "|".join(KINDS)
