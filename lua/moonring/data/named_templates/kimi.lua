-- Chat templates of Moonshot's Moonlight and Kimi. Fields: data/template_fields.lua.
return {
  {
    name = "moonlight", system = "<|im_system|>system<|im_middle|>{{content}}<|im_end|>",
    user = "<|im_user|>user<|im_middle|>{{content}}<|im_end|><|im_assistant|>"
      .. "assistant<|im_middle|>", assistant = "{{content}}<|im_end|>",
    default_system = "You are a helpful assistant provided by Moonshot-AI.",
      stop_words = { "<|im_end|>" }, replace_eos = true,
  },
  {
    name = "kimi_vl", like = "moonlight", class = "reasoning",
      thought_words = { "◁think▷", "◁/think▷" },
    default_system = "You are a helpful assistant", replace_eos = false,
  },
}
