-- Chat templates of Xiaomi's MiMo. Fields: data/template_fields.lua.
return {
  { name = "mimo", like = "qwen", class = "reasoning",
    default_system = "You are a helpful assistant." },
  {
    name = "mimo_v2", like = "mimo", thought_words = { "<think>", "</think>" },
    default_system = "You are MiMo, a helpful AI assistant engineered by Xiaomi.",
  },
  { name = "mimo_vl", like = "mimo", default_system = "You are MiMo, an AI assistant developed by "
    .. "Xiaomi." },
}
