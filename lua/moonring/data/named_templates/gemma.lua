-- Chat templates of Google's Gemma and PaliGemma. Before Gemma 4 the system text is part of the
-- user's first message. Fields: data/template_fields.lua.
return {
  {
    name = "gemma", class = "system_in_user", prefix = { { "bos" } }, system = "{{content}}\n\n",
    user = "<start_of_turn>user\n{{content}}<end_of_turn>\n<start_of_turn>model\n",
      assistant = "{{content}}<end_of_turn>\n",
    observation = "<start_of_turn>tool\n{{content}}<end_of_turn>\n<start_of_turn>model\n",
      stop_words = { "<end_of_turn>" }, replace_eos = true,
  },
  { name = "gemma2", like = "gemma", stop_words = { "<eos>", "<end_of_turn>" },
    efficient_eos = true, replace_eos = false },
  { name = "gemma3", like = "gemma" },
  { name = "gemma3n", like = "gemma" },
  {
    name = "gemma4", like = "gemma", class = "reasoning",
      system = "<|turn>system\n<|think|>{{content}}<turn|>\n",
    user = "<|turn>user\n{{content}}<turn|>\n<|turn>model\n", assistant = "{{content}}<turn|>\n",
      function_call = "<|tool>{{content}}<tool|>",
    observation = "<|turn>tool\n{{content}}<turn|>\n<|turn>model\n", tool_format = "gemma4",
      thought_words = { "<|channel>thought\n", "<channel|>" },
    thought_written = { "<|channel>thought\n", "\n<channel|>" }, thought_trim = "nothing",
    default_system = "You are a helpful assistant.", stop_words = { "<turn|>" },
  },
  { name = "gemma4n", like = "gemma4" },
  { name = "paligemma", class = "system_in_user", prefix = { { "bos" } }, user = "{{content}}\n" },
  { name = "paligemma_chat", like = "gemma", system = "{{content}}" },
}
