-- Chat templates of Meta's Llama. Fields: data/template_fields.lua.
return {
  { name = "llama2", class = "system_in_user", system = "<<SYS>>\n{{content}}\n<</SYS>>\n\n",
    user = { { "bos" }, "[INST] {{content}} [/INST]" } },
  { name = "llama2_zh", like = "llama2", default_system = "You are a helpful assistant. "
    .. "你是一个乐于助人的助手。" },
  {
    name = "llama3", prefix = { { "bos" } }, system =
      "<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>",
    user = "<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>"
      .. "assistant<|end_header_id|>\n\n",
    assistant = "{{content}}<|eot_id|>",
    observation = "<|start_header_id|>ipython<|end_header_id|>\n\n{{content}}<|eot_id|>"
      .. "<|start_header_id|>assistant<|end_header_id|>\n\n",
    tool_format = "llama3", stop_words = { "<|eot_id|>", "<|eom_id|>" }, replace_eos = true,
  },
  {
    name = "llama4", like = "llama3", system =
      "<|header_start|>system<|header_end|>\n\n{{content}}<|eot|>",
    user = "<|header_start|>user<|header_end|>\n\n{{content}}<|eot|><|header_start|>"
      .. "assistant<|header_end|>\n\n", assistant = "{{content}}<|eot|>",
    observation = "<|header_start|>ipython<|header_end|>\n\n{{content}}<|eot|><|header_start|>"
      .. "assistant<|header_end|>\n\n",
    stop_words = { "<|eot|>", "<|eom|>" },
  },
  { name = "mllama", like = "llama3" },
}
