-- Chat templates of MiniMax. Fields: data/template_fields.lua.
return {
  {
    name = "minimax1", system = "<beginning_of_sentence>system "
      .. "ai_setting=assistant\n{{content}}<end_of_sentence>\n",
    user = "<beginning_of_sentence>user "
      .. "name=user\n{{content}}<end_of_sentence>\n<beginning_of_sentence>ai name=assistant\n",
    assistant = "{{content}}<end_of_sentence>\n",
    observation = "<beginning_of_sentence>tool "
      .. "name=tools\n{{content}}<end_of_sentence>\n<beginning_of_sentence>ai name=assistant\n",
    tool_format = "minimax1", default_system = "You are a helpful assistant.",
      stop_words = { "<end_of_sentence>" },
  },
  {
    name = "minimax2", class = "reasoning", thought_trim = "nothing",
      system = "]~!b[]~b]system\n{{content}}[e~[\n",
      user = "]~b]user\n{{content}}[e~[\n]~b]ai\n",
    assistant = "{{content}}[e~[\n", observation =
      "]~b]tool\n<response>{{content}}</response>[e~[\n]~b]ai\n", tool_format = "minimax2",
    default_system = "You are a helpful assistant. Your name is MiniMax-M2.1 and is built by "
      .. "MiniMax.", stop_words = { "[e~[" },
  },
}
