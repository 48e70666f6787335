-- Chat templates of Liquid's LFM2. Fields: data/template_fields.lua.
return {
  {
    name = "lfm2", like = "qwen",
    observation = "<|im_start|>tool\n<|tool_response_start|>{{content}}<|tool_response_end|>"
      .. "<|im_end|>\n<|im_start|>assistant\n",
    tool_format = "lfm2", tool_call_words = { "<|tool_call_start|>", "<|tool_call_end|>" },
      default_system = "You are a helpful AI assistant.",
  },
  { name = "lfm2_vl", like = "lfm2", default_system = "You are a helpful multimodal assistant by "
    .. "Liquid AI." },
}
