-- Chat templates of IBM's Granite. Fields: data/template_fields.lua.
return {
  {
    name = "granite3",
      system = "<|start_of_role|>system<|end_of_role|>{{content}}<|end_of_text|>\n",
    user = "<|start_of_role|>user<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>"
      .. "assistant<|end_of_role|>",
    assistant = "{{content}}<|end_of_text|>\n",
  },
  {
    name = "granite3_vision", system = "<|system|>\n{{content}}\n",
      user = "<|user|>\n{{content}}\n<|assistant|>\n",
    default_system = "A chat between a curious user and an artificial intelligence assistant. The "
      .. "assistant gives helpful, detailed, and " ..
      "polite answers to the user's questions.",
  },
  {
    name = "granite4", like = "granite3",
    observation = "<|start_of_role|>tool<|end_of_role|>{{content}}<|end_of_text|>\n"
      .. "<|start_of_role|>assistant\n",
    default_system = "You are Granite, developed by IBM. You are a helpful AI assistant.",
      stop_words = { "<|end_of_text|>" },
  },
}
