-- Chat templates of Alibaba's Qwen, and of Keye-VL, which has the same format. Fields:
-- data/template_fields.lua.
return {
  {
    name = "qwen", like = "chatml",
    observation = "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n"
      .. "<|im_start|>assistant\n", tool_format = "qwen",
    default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
      stop_words = { "<|im_end|>" },
  },
  { name = "qwen3", like = "qwen", class = "reasoning", default_system = "" },
  { name = "qwen3_nothink", like = "qwen", default_system = "" },
  { name = "qwen2_audio", like = "yi", default_system = "You are a helpful assistant.",
    replace_eos = true },
  { name = "qwen2_omni", like = "qwen", default_system = "You are a helpful assistant." },
  { name = "qwen3_omni", like = "qwen3" },
  { name = "qwen3_omni_nothink", like = "qwen3_nothink" },
  { name = "qwen2_vl", like = "qwen2_omni" },
  { name = "qwen3_vl", like = "qwen3" },
  { name = "qwen3_vl_nothink", like = "qwen3_nothink" },
  { name = "qwen3_5", like = "qwen3", tool_format = "qwen3_5", thought_trim = "spaces" },
  { name = "qwen3_5_nothink", like = "qwen3_nothink", tool_format = "qwen3_5" },
  { name = "qwen3_6", like = "qwen3_5" },
  { name = "keye_vl", like = "qwen3" },
}
