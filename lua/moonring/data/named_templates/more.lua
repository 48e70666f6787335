-- Model families with only one or two chat templates. Fields: data/template_fields.lua.
return {
  { name = "breeze", prefix = { { "bos" } }, user = "[INST] {{content}} [/INST] ",
    efficient_eos = true },
  {
    name = "cohere", prefix = { { "bos" } }, system =
      "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|>",
    user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|>"
      .. "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
  },
  {
    name = "dots_ocr", system = "<|system|>{{content}}<|endofsystem|>\n",
      user = "<|user|>{{content}}<|endofuser|><|assistant|>",
    assistant = "{{content}}<|endofassistant|>", stop_words = { "<|endofassistant|>" },
      efficient_eos = true,
  },
  {
    name = "exaone", system = "[|system|]{{content}}[|endofturn|]\n",
      user = "[|user|]{{content}}\n[|assistant|]",
    assistant = { "{{content}}", { "eos" }, "\n" },
  },
  { name = "falcon", user = "User: {{content}}\nFalcon:", assistant = "{{content}}\n",
    efficient_eos = true },
  {
    name = "gpt_oss", class = "reasoning", system = "<|start|>system<|message|>{{content}}<|end|>",
    user = "<|start|>user<|message|>{{content}}<|end|><|start|>assistant",
    thought_words = { "<|channel|>analysis<|message|>",
      "<|end|><|start|>assistant<|channel|>final<|message|>" }, thought_trim = "nothing",
    default_system = "You are ChatGPT, a large language model trained by OpenAI.",
      efficient_eos = true,
  },
  { name = "index", system = "<unk>{{content}}", user = "reserved_0{{content}}reserved_1",
    efficient_eos = true },
  { name = "olmo", prefix = { { "eos" } }, user = "<|user|>\n{{content}}<|assistant|>\n" },
  { name = "openchat", prefix = { { "bos" } },
    user = { "GPT4 Correct User: {{content}}", { "eos" }, "GPT4 Correct Assistant:" } },
  {
    name = "openchat-3.6", prefix = { { "bos" } },
    user = "<|start_header_id|>GPT4 Correct "
      .. "User<|end_header_id|>\n\n{{content}}<|eot_id|><|start_header_id|>GPT4 Correct "
      .. "Assistant<|end_header_id|>\n\n",
    stop_words = { "<|eot_id|>" },
  },
  { name = "solar", system = "### System:\n{{content}}\n\n",
    user = "### User:\n{{content}}\n\n### Assistant:\n", efficient_eos = true },
  {
    name = "starchat", system = "<|system|>\n{{content}}<|end|>\n",
      user = "<|user|>\n{{content}}<|end|>\n<|assistant|>",
    assistant = "{{content}}<|end|>\n", stop_words = { "<|end|>" },
  },
  {
    name = "telechat2", system = "<_system>{{content}}", user = "<_user>{{content}}<_bot>",
    default_system = "你是中国电信星辰语义大模型，英文名是TeleChat，你是由中电信人工智能科技有限公司和中国电信人工智能研究院（TeleAI）研发的人工智能助手。",
  },
  {
    name = "xuanyuan", user = "Human: {{content}} Assistant:",
    default_system = "以下是用户和人工智能助手之间的对话。用户以Human开头，人工智能助手以Assistant开头，"
      .. "会对人类提出的问题给出有帮助、高质量、详细和礼貌的回答，并且总是拒绝参与与不道德、不安全、有争议、政治敏感等相关的话题、问题和指示。\n",
  },
  { name = "yuan", user = { "{{content}}", { token = "<sep>" } }, assistant = "{{content}}<eod>\n",
    stop_words = { "<eod>" } },
}
