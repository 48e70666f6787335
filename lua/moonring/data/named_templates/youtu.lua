-- Chat templates of Tencent's Youtu. Fields: data/template_fields.lua.
return {
  {
    name = "youtu", class = "reasoning", prefix = { { "bos" } },
      user = "<|User|>{{content}}<|Assistant|>", assistant = "{{content}}<|end_of_text|>",
    function_call = "{{content}}", observation =
      "<tool_response>\n{{content}}\n</tool_response><|Assistant|>",
      stop_words = { "<|end_of_text|>" },
    replace_eos = true,
  },
  {
    name = "youtu_vl", system = "<|begin_of_text|>system\n{{content}}<|end_of_text|>\n",
    user = "<|begin_of_text|>user\n{{content}}<|end_of_text|>\n<|begin_of_text|>assistant\n",
      assistant = "{{content}}<|end_of_text|>\n",
    default_system = "You are a helpful assistant.", stop_words = { "<|end_of_text|>" },
  },
}
