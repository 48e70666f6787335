-- Chat templates of Mistral. From `ministral` on, the tokenizer (tekken) needs no space after a
-- marker. Fields: data/template_fields.lua.
return {
  {
    name = "mistral", class = "system_in_user", prefix = { { "bos" } }, system = "{{content}}\n\n",
      user = "[INST] {{content}}[/INST]",
    assistant = { " {{content}}", { "eos" } },
      function_call = { "[TOOL_CALLS] {{content}}", { "eos" } },
    observation = "[TOOL_RESULTS] {\"content\": {{content}}}[/TOOL_RESULTS]",
      tool_format = "mistral",
  },
  {
    name = "ministral", like = "mistral", user = "[INST]{{content}}[/INST]",
      assistant = { "{{content}}", { "eos" } },
    function_call = { "[TOOL_CALLS]{{content}}", { "eos" } },
      observation = "[TOOL_RESULTS]{\"content\": {{content}}}[/TOOL_RESULTS]",
  },
  { name = "ministral3", like = "ministral" },
  { name = "mistral_small", like = "ministral", class = "plain",
    system = "[SYSTEM_PROMPT]{{content}}[/SYSTEM_PROMPT]" },
  { name = "pixtral", like = "ministral" },
}
