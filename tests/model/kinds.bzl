"""Model families that together have all features of the other families."""

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

# The other families, in the syntax of a test's attribute `full`
# (third_party/precompiled/together.bzl).
OTHERS = "!(%s)" % "|".join(KINDS)
