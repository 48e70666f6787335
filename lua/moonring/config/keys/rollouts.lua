--- Keys of stages that train on rewards: generation, advantages and loss. Names are those of TRL
-- (GRPOConfig, RLOOConfig). Fields of a row: keys/init.lua.
local null = require("moonring.native.system").null

local ROLLOUTS, CLIPPED, GRPO = { "grpo", "rloo", "online_dpo" }, { "grpo", "rloo" }, { "grpo" }

return {
  { title = "Rollouts", rows = {
    { "num_generations", "int", null, "completions per prompt; absent: 8, in stages rloo and "
      .. "online_dpo 2", least = 2, stages = ROLLOUTS },
    { "max_prompt_length", "int", null, "maximum tokens of a prompt: of a longer one the last "
      .. "tokens are kept (overlong: drop and error apply too); absent: cutoff_len", least = 1,
      stages = ROLLOUTS },
    { "max_completion_length", "int", 256, "maximum tokens of a completion, with those of tool "
      .. "results (rollout_hooks)", least = 1, stages = ROLLOUTS },
    { "min_p", "float", 0.0, "stages that generate: tokens with less than min_p x the largest "
      .. "probability are never sampled. temperature, top_p, top_k and repetition_penalty act too; "
      .. "their defaults are 1 (online_dpo: temperature 0.9), 1, 0 (all) and 1", least = 0,
      most = 1, stages = ROLLOUTS },
    { "steps_per_generation", "int", null, "batches of per_device_train_batch_size per rollout, a "
      .. "multiple of gradient_accumulation_steps; absent: gradient_accumulation_steps. With more, "
      .. "the later steps train on completions of older weights", least = 1, stages = ROLLOUTS },
    { "num_iterations", "int", 1, "passes over each rollout's completions", least = 1,
      stages = CLIPPED },
    { "rollout_sequences", "int", 64, "completions generated concurrently on a rank: a trade-off "
      .. "between memory and speed without effect on results",
      least = 1, stages = ROLLOUTS, resume = "free" },
    { "rollout_spread_length", "int", 1024, "with sequence_parallel_size above 1: if a rollout has "
      .. "a prompt with at least this many tokens, the ranks of an sp group generate together, and "
      .. "each stores the keys and values of its own tokens; otherwise each rank stores those of "
      .. "all tokens", least = 1,
      stages = ROLLOUTS, resume = "free" },
    { "rollout_hooks", "string", null, "a Lua file of functions that take part in generating "
      .. "completions: logits changes the logits of the next tokens, continue answers a turn, for "
      .. "example with a tool's result (docs/rollouts.md)", own_file = true, stages = ROLLOUTS },
    { "dynamic_sampling", "bool", false, "replace prompts whose completions all have the same "
      .. "reward, which give no gradient, by other prompts (DAPO, arXiv 2503.14476)",
      stages = GRPO },
    { "dynamic_sampling_rounds", "int", 10, "maximum number of replacements; after it such prompts "
      .. "are kept",
      least = 1, stages = GRPO, of = "dynamic_sampling" },
    { "log_completions", "bool", false, "write each rollout's completions with their rewards to "
      .. "completions/NUMBER.jsonl in output_dir", stages = ROLLOUTS, resume = "free" },
    { "num_completions_to_print", "int", null, "with log_completions: number of completions per "
      .. "rollout that are also printed to the terminal",
      least = 0, stages = ROLLOUTS, resume = "free",
      of = "log_completions" },
  } },
  { title = "Advantages", rows = {
    { "scale_rewards", "string", "group", "the standard deviation that rewards are divided by: "
      .. "over the prompt's completions (group), over the rollout (batch), or none",
      choices = { "group", "batch",
      "none" }, stages = GRPO },
    { "soft_overlong_cache", "int", null, "completions that end within this many tokens of "
      .. "max_completion_length lose up to 1 of their reward (DAPO's soft overlong punishment)",
      least = 1, stages = GRPO },
    { "missing_eos_penalty", "float", null, "penalty on the reward of truncated completions",
      least = 0,
      stages = { "online_dpo" } },
    { "normalize_advantages", "bool", false, "normalize advantages over the whole rollout",
      stages = { "rloo" } },
    { "mask_truncated_completions", "bool", false, "do not train on truncated completions; dapo "
      .. "and bnpo also exclude their tokens from the divisor, grpo and dr_grpo divide by all "
      .. "completions, as in TRL", stages = CLIPPED },
  } },
  { title = "Policy gradients", rows = {
    { "loss_type", "string", "dapo", "normalization of a step's loss. grpo: each completion by its "
      .. "tokens, then by the number of completions; dapo, bnpo: by the completion tokens of the "
      .. "whole step, except those of masked completions; dr_grpo: by completions x "
      .. "max_completion_length", choices = { "grpo", "bnpo", "dr_grpo", "dapo" },
      stages = GRPO },
    { "beta", "float", null, "weight of the KL divergence from the reference; absent: 0 in stage "
      .. "grpo (no reference is loaded), 0.05 in rloo, 0.1 in online_dpo",
      least = 0, stages = ROLLOUTS },
    { "epsilon", "float", 0.2, "probability ratios to the policy that generated the completion are "
      .. "clipped below at 1 - epsilon", least = 0, stages = CLIPPED },
    { "epsilon_high", "float", null, "and above at 1 + epsilon_high; absent: epsilon", least = 0,
      stages = CLIPPED },
    { "delta", "float", null, "maximum ratio, also for negative advantages (two-sided clipping, "
      .. "arXiv 2505.07291); above 1 + epsilon_high", least = 0, stages = GRPO },
    { "importance_sampling_level", "string", "token", "one ratio per token, or one per completion "
      .. "(GSPO, arXiv 2507.18071)", choices = { "token", "sequence" }, stages = GRPO },
    { "top_entropy_quantile", "float", 1.0, "train only on this fraction of the step's tokens, "
      .. "those with the highest entropy (arXiv 2506.01939)", least = 0, most = 1,
      stages = GRPO },
  } },
}
