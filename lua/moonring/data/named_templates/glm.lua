-- Chat templates of Zhipu's GLM and ChatGLM. They have no token that ends an answer: a model stops
-- at the marker of the next message. Fields: data/template_fields.lua.
return {
  {
    name = "glm4", prefix = "[gMASK]<sop>", system = "<|system|>\n{{content}}",
      user = "<|user|>\n{{content}}<|assistant|>",
    assistant = "\n{{content}}", function_call = "{{content}}",
      observation = "<|observation|>\n{{content}}<|assistant|>", tool_format = "glm4",
    stop_words = { "<|user|>", "<|observation|>" }, efficient_eos = true,
  },
  { name = "glm4_moe", like = "glm4", class = "reasoning", tool_format = "glm4_moe",
    thought_written = { "<think>", "</think>", "\n" }, thought_trim = "spaces" },
  { name = "glm4v", like = "glm4", class = "reasoning",
    stop_words = { "<|user|>", "<|observation|>", "</answer>" } },
  { name = "glm4_5v", like = "glm4_moe", stop_words = { "<|user|>", "<|observation|>",
    "</answer>" } },
  { name = "glm_ocr", like = "glm4" },
  { name = "glm4_7", like = "glm4_moe", thought_words = { "<think>", "</think>" },
    empty_thought = "</think>", thought_written = { "<think>", "</think>" } },
  { name = "glmz1", like = "glm4", class = "reasoning" },
  {
    name = "aeva", like = "glm4_7",
    default_system = "You are an AI assistant named Aeva created by Zongzhi Lou. Your answer "
      .. "should be friendly, unbiased, faithful, " ..
      "informative and detailed.",
  },
  {
    name = "chatglm3", like = "glm4", prefix = { { token = "[gMASK]" }, { token = "sop" } },
    system = { { token = "<|system|>" }, "\n", "{{content}}" },
      user = { { token = "<|user|>" }, "\n", "{{content}}", { token = "<|assistant|>" } },
    assistant = { "\n", "{{content}}" }, observation =
      { { token = "<|observation|>" }, "\n", "{{content}}", { token = "<|assistant|>" } },
  },
}
