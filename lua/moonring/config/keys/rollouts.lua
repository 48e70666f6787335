--- Keys of stages that learn from rewards: what is generated, how it is judged, and the loss. Names
-- are TRL's (GRPOConfig, RLOOConfig). What a row says: keys/init.lua.
local null = require("moonring.native.system").null

local ROLLOUTS, CLIPPED, GRPO = { "grpo", "rloo", "online_dpo" }, { "grpo", "rloo" }, { "grpo" }

return {
  { title = "Rollouts", rows = {
    { "num_generations", "int", null, "completions of each prompt; absent: 8, in stages rloo and "
      .. "online_dpo 2", least = 2, stages = ROLLOUTS },
    { "max_prompt_length", "int", null, "tokens of a prompt at most: of a longer one the last ones "
      .. "are kept (overlong: drop or error: see there); absent: cutoff_len", least = 1,
      stages = ROLLOUTS },
    { "max_completion_length", "int", 256, "tokens of a completion at most", least = 1,
      stages = ROLLOUTS },
    { "min_p", "float", 0.0, "stages that generate: tokens less likely than min_p x the likeliest "
      .. "are never drawn. temperature, top_p, top_k and repetition_penalty act too; where they "
      .. "are absent they are 1 (online_dpo: temperature 0.9), 1, 0 (all) and 1", least = 0,
      most = 1, stages = ROLLOUTS },
    { "steps_per_generation", "int", null, "batches of per_device_train_batch_size that one "
      .. "rollout gives, a multiple of gradient_accumulation_steps; absent: these. More of them: "
      .. "the later steps learn from completions of older weights", least = 1, stages = ROLLOUTS },
    { "num_iterations", "int", 1, "how often the steps of a rollout are made", least = 1,
      stages = CLIPPED },
    { "rollout_sequences", "int", 64, "completions that are generated at once on a rank: memory "
      .. "against speed, no number depends on it", least = 1, stages = ROLLOUTS, resume = "free" },
    { "rollout_spread_length", "int", 1024, "with sequence_parallel_size above 1: where a prompt "
      .. "of a rollout has so many tokens, an sp group generates together, and each rank keeps the "
      .. "keys of its own tokens; with shorter ones each rank has all of them", least = 1,
      stages = ROLLOUTS, resume = "free" },
    { "dynamic_sampling", "bool", false, "groups whose completions all have the same reward teach "
      .. "nothing: take other prompts in their place (DAPO, arXiv 2503.14476)", stages = GRPO },
    { "dynamic_sampling_rounds", "int", 10, "how often at most; then such groups fill the rollout",
      least = 1, stages = GRPO, of = "dynamic_sampling" },
    { "log_completions", "bool", false, "write each rollout's completions with their rewards to "
      .. "completions/NUMBER.jsonl in output_dir", stages = ROLLOUTS, resume = "free" },
    { "num_completions_to_print", "int", null, "with log_completions, so many of each are shown "
      .. "on the terminal too", least = 0, stages = ROLLOUTS, resume = "free",
      of = "log_completions" },
  } },
  { title = "Advantages", rows = {
    { "scale_rewards", "string", "group", "by which standard deviation rewards are divided: of the "
      .. "prompt's completions, of all of the rollout, or none", choices = { "group", "batch",
      "none" }, stages = GRPO },
    { "soft_overlong_cache", "int", null, "completions that come nearer than so many tokens to "
      .. "max_completion_length lose up to 1 of their reward (DAPO's soft overlong punishment)",
      least = 1, stages = GRPO },
    { "missing_eos_penalty", "float", null, "what a completion loses that was cut off", least = 0,
      stages = { "online_dpo" } },
    { "normalize_advantages", "bool", false, "over all of the rollout", stages = { "rloo" } },
    { "mask_truncated_completions", "bool", false, "completions that were cut off are not learnt "
      .. "from; dapo and bnpo do not divide by their tokens either, grpo and dr_grpo divide by all "
      .. "completions, as TRL does", stages = CLIPPED },
  } },
  { title = "Policy gradients", rows = {
    { "loss_type", "string", "dapo", "what a step's loss is divided by. grpo: each completion by "
      .. "its tokens, then by the completions; dapo, bnpo: by the completion tokens of the whole "
      .. "step, those of masked completions left out; dr_grpo: by completions x "
      .. "max_completion_length", choices = { "grpo", "bnpo", "dr_grpo", "dapo" },
      stages = GRPO },
    { "beta", "float", null, "weight of the divergence from the reference; absent: 0 in stage grpo "
      .. "(no reference is held), 0.05 in rloo, 0.1 in online_dpo", least = 0, stages = ROLLOUTS },
    { "epsilon", "float", 0.2, "ratios to the completion's own policy are clipped below 1 - "
      .. "epsilon", least = 0, stages = CLIPPED },
    { "epsilon_high", "float", null, "and above 1 + epsilon_high; absent: epsilon", least = 0,
      stages = CLIPPED },
    { "delta", "float", null, "the greatest ratio where the advantage is negative too (two-sided "
      .. "clipping, arXiv 2505.07291); above 1 + epsilon_high", least = 0, stages = GRPO },
    { "importance_sampling_level", "string", "token", "a ratio a token, or one a completion (GSPO, "
      .. "arXiv 2507.18071)", choices = { "token", "sequence" }, stages = GRPO },
    { "top_entropy_quantile", "float", 1.0, "only this part of the step's tokens, those of the "
      .. "highest entropy, are learnt from (arXiv 2506.01939)", least = 0, most = 1,
      stages = GRPO },
  } },
}
