-- Chat templates of Microsoft's Phi. Fields: data/template_fields.lua.
return {
  {
    name = "phi", system = "<|system|>\n{{content}}<|end|>\n",
      user = "<|user|>\n{{content}}<|end|>\n<|assistant|>\n",
    assistant = "{{content}}<|end|>\n", stop_words = { "<|end|>" }, replace_eos = true,
  },
  -- In LLaMA-Factory the template should begin with <|endoftext|>, but its slot produces no token.
  { name = "phi_small", like = "phi" },
  {
    name = "phi4", system = "<|im_start|>system<|im_sep|>{{content}}<|im_end|>",
    user = "<|im_start|>user<|im_sep|>{{content}}<|im_end|><|im_start|>assistant<|im_sep|>",
      assistant = "{{content}}<|im_end|>",
    stop_words = { "<|im_end|>" }, replace_eos = true,
  },
  {
    name = "phi4_mini", like = "phi", system = "<|system|>{{content}}<|end|>",
      user = "<|user|>{{content}}<|end|><|assistant|>",
    assistant = "{{content}}<|end|>", tools = "<|tool|>{{content}}<|/tool|>",
  },
}
