-- Chat templates of ByteDance's Seed. Fields: data/template_fields.lua.
return {
  {
    name = "seed_coder", system = { { "bos" }, "system\n{{content}}", { "eos" } },
    user = { { "bos" }, "user\n{{content}}", { "eos" }, { "bos" }, "assistant\n" },
    default_system = "You are an AI programming assistant, utilizing the Seed-Coder model, "
      .. "developed by ByteDance Seed, and you only answer " ..
      "questions related to computer science. For politically sensitive questions, security and "
        .. "privacy issues, and other " ..
      "non-computer science questions, you will refuse to answer.\n\n",
  },
  {
    name = "seed_oss", class = "reasoning", system =
      { { "bos" }, "system\n{{content}}", { "eos" } },
    user = { { "bos" }, "user\n{{content}}", { "eos" }, { "bos" }, "assistant\n" },
      function_call = { { "bos" }, "\n{{content}}", { "eos" } },
    tool_format = "seed_oss", thought_words = { "<seed:think>", "</seed:think>" },
    thought_written = { "<seed:think>", "</seed:think>", "\n" }, thought_trim = "spaces",
  },
}
