-- Chat templates of Vicuna, and of LLaVA models with several language models, for texts only (no
-- images). Fields: data/template_fields.lua.
return {
  {
    name = "vicuna", user = "USER: {{content}} ASSISTANT:",
    default_system = "A chat between a curious user and an artificial intelligence assistant. The "
      .. "assistant gives helpful, detailed, and " ..
      "polite answers to the user's questions.",
  },
  { name = "llava", like = "vicuna" },
  { name = "llava_next", like = "vicuna" },
  { name = "llava_next_video", like = "vicuna" },
  { name = "video_llava", like = "vicuna" },
  { name = "llava_next_llama3", like = "llama3" },
  { name = "llava_next_mistral", like = "mistral" },
  { name = "llava_next_video_mistral", like = "llava_next_mistral" },
  { name = "llava_next_qwen", like = "qwen", default_system = "You are a helpful assistant." },
  { name = "llava_next_yi", like = "yi" },
  { name = "llava_next_video_yi", like = "llava_next_yi" },
}
