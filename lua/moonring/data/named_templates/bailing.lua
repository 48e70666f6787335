-- Chat templates of Ant's Ling (Bailing). Fields: data/template_fields.lua.
return {
  {
    name = "bailing", system = "<role>SYSTEM</role>{{content}}",
      user = "<role>HUMAN</role>{{content}}<role>ASSISTANT</role>",
    observation = "<role>OBSERVATION</role>{{content}}<role>ASSISTANT</role>",
      stop_words = { "<|endoftext|>" }, efficient_eos = true,
  },
  {
    name = "bailing_v2", like = "bailing", system = "<role>SYSTEM</role>{{content}}<|role_end|>",
    user = "<role>HUMAN</role>{{content}}<|role_end|><role>ASSISTANT</role>",
      assistant = "{{content}}<|role_end|>",
    observation = "<role>OBSERVATION</role>\n<tool_response>\n{{content}}\n</tool_response>"
      .. "<|role_end|><role>ASSISTANT</role>", tool_format = "ling",
  },
}
