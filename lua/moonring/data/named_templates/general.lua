-- Templates of no model family: those for plain texts, and `default`, which is used if none is
-- named. Fields: data/template_fields.lua.
return {
  {
    name = "default", system = { "System: {{content}}", { "eos" }, "\n" },
      user = { "Human: {{content}}", { "eos" }, "\nAssistant:" },
    assistant = { "{{content}}", { "eos" }, "\n" },
  },
  { name = "empty", assistant = "{{content}}" },
  { name = "fewshot", assistant = "{{content}}\n\n", efficient_eos = true },
  {
    name = "alpaca", user = "### Instruction:\n{{content}}\n\n### Response:\n",
      assistant = { "{{content}}", { "eos" }, "\n\n" },
    default_system = "Below is an instruction that describes a task. Write a response that "
      .. "appropriately completes the request.\n\n",
  },
  {
    name = "zephyr", system = { "<|system|>\n{{content}}", { "eos" } },
      user = { "<|user|>\n{{content}}", { "eos" }, "<|assistant|>\n" },
    default_system = "You are Zephyr, a helpful assistant.",
  },
}
