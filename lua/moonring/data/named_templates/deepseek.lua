-- Chat templates of DeepSeek. Fields: data/template_fields.lua.
return {
  { name = "deepseek", prefix = { { "bos" } }, system = "{{content}}\n\n",
    user = "User: {{content}}\n\nAssistant:" },
  { name = "deepseek3", prefix = { { "bos" } }, user = "<｜User｜>{{content}}<｜Assistant｜>" },
  { name = "deepseekr1", like = "deepseek3", class = "reasoning" },
  {
    name = "deepseekcoder", prefix = { { "bos" } }, user = "### Instruction:\n{{content}}\n### "
      .. "Response:", assistant = "\n{{content}}\n<|EOT|>\n",
    default_system = "You are an AI programming assistant, utilizing the DeepSeek Coder model, "
      .. "developed by DeepSeek Company, and you only " ..
      "answer questions related to computer science. For politically sensitive questions, "
        .. "security and privacy issues, and " ..
      "other non-computer science questions, you will refuse to answer.\n",
  },
}
