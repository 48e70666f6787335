-- Chat templates of Tencent's Hunyuan. Fields: data/template_fields.lua.
return {
  {
    name = "hunyuan", prefix = "<|startoftext|>", system = "{{content}}<|extra_4|>",
      user = "{{content}}<|extra_0|>",
    assistant = "{{content}}<|eos|>", stop_words = { "<|eos|>" },
  },
  {
    name = "hunyuan_small", prefix = "<｜hy_begin▁of▁sentence｜>",
      system = "{{content}}<｜hy_place▁holder▁no▁3｜>",
    user = "<｜hy_User｜>{{content}}<｜hy_place▁holder▁no▁8｜>",
      assistant = "{{content}}<｜hy_place▁holder▁no▁2｜>",
    stop_words = { "<｜hy_place▁holder▁no▁2｜>" },
  },
  {
    name = "hy3", class = "reasoning", prefix = { { "bos" } },
      user = "<｜hy_User｜>{{content}}<｜hy_Assistant｜>", assistant = "{{content}}<｜hy_eos｜>",
    thought_words = { "<think>", "</think>" }, stop_words = { "<｜hy_eos｜>" }, replace_eos = true,
  },
}
