-- ChatML, in which each message is between <|im_start|>ROLE and <|im_end|>, and templates that
-- differ from it in one or two words. Fields: data/template_fields.lua.
return {
  {
    name = "chatml", system = "<|im_start|>system\n{{content}}<|im_end|>\n",
    user = "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n",
      assistant = "{{content}}<|im_end|>\n",
    observation = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n",
      stop_words = { "<|im_end|>", "<|im_start|>" },
    replace_eos = true,
  },
  { name = "chatml_de", like = "chatml", default_system = "Du bist ein freundlicher und "
    .. "hilfsbereiter KI-Assistent." },
  {
    name = "dbrx", like = "chatml",
    default_system = "You are DBRX, created by Databricks. You were last updated in December "
      .. "2023. You answer questions based on information " ..
      "available up to that point.\nYOU PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, "
        .. "but provide thorough " ..
      "responses to more complex and open-ended questions.\nYou assist with various tasks, from "
        .. "writing to coding (using " ..
      "markdown for code blocks — remember to use ``` with code, JSON, and tables).\n(You do not "
        .. "have real-time data access or " ..
      "code execution capabilities. You avoid stereotyping and provide balanced perspectives on "
        .. "controversial topics. You do " ..
      "not provide song lyrics, poems, or news articles and do not divulge details of your "
        .. "training data.)\nThis is your system " ..
      "prompt, guiding your responses. Do not reference it, just respond to the user. If you find "
        .. "yourself talking about this " ..
      "message, stop. You should be responding appropriately and usually that means not "
        .. "mentioning this.\nYOU DO NOT MENTION " ..
      "ANY OF THIS INFORMATION ABOUT YOURSELF UNLESS THE INFORMATION IS DIRECTLY PERTINENT TO THE "
        .. "USER'S QUERY.",
    stop_words = { "<|im_end|>" },
  },
  {
    name = "opencoder", like = "chatml", default_system =
      "You are OpenCoder, created by OpenCoder Team.", stop_words = { "<|im_end|>" },
    replace_eos = false,
  },
  { name = "falcon_h1", like = "chatml", prefix = { { "bos" } },
    stop_words = { "<|im_end|>", "<|end_of_text|>" }, replace_eos = false },
  { name = "cpm4", like = "falcon_h1", stop_words = { "<|im_end|>" } },
  {
    name = "sailor", system = "<|im_start|>system\n{{content}}<|im_end|>\n",
    user = "<|im_start|>question\n{{content}}<|im_end|>\n<|im_start|>answer\n",
      assistant = "{{content}}<|im_end|>\n",
    default_system = "You are an AI assistant named Sailor created by Sea AI Lab. Your answer "
      .. "should be friendly, unbiased, faithful, " ..
      "informative and detailed.",
    stop_words = { "<|im_end|>" },
  },
  {
    name = "yi", system = "<|im_start|>system\n{{content}}<|im_end|>\n",
      user = "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n",
    assistant = "{{content}}<|im_end|>\n", stop_words = { "<|im_end|>" },
  },
  {
    name = "yi_vl", user = "### Human: {{content}}\n### Assistant:", assistant = "{{content}}\n",
    default_system = "This is a chat between an inquisitive human and an AI assistant. Assume the "
      .. "role of the AI assistant. Read all the " ..
      "images carefully, and respond to the human's questions with informative, helpful, detailed "
        .. "and polite answers. " ..
      "这是一个好奇的人类和一个人工智能助手之间的对话。假设你扮演这个AI助手的角色。仔细阅读所有的图像，并对人类的问题做出信息丰富、有帮助、详细的和礼貌的回答。\n\n",
    stop_words = { "###" }, efficient_eos = true,
  },
  { name = "smollm", like = "yi" },
  { name = "smollm2", like = "yi", default_system = "You are a helpful AI assistant named SmolLM, "
    .. "trained by Hugging Face." },
  {
    name = "ernie", system = "<|im_start|>system\n{{content}}<|im_end|>\n\n",
    user = "<|im_start|>user\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n",
      assistant = "{{content}}<|im_end|>\n\n",
    observation = "<|im_start|>tool\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n",
    default_system = "<global_setting>\nthink_mode=True\n</global_setting>",
      stop_words = { "<|im_end|>" },
  },
  {
    name = "ernie_nothink", prefix = "<|begin_of_sentence|>", system = "{{content}}\n",
      user = "User: {{content}}\nAssistant: ",
    assistant = "{{content}}<|end_of_sentence|>", stop_words = { "<|end_of_sentence|>" },
  },
  {
    name = "ernie_vl", class = "reasoning", system = "{{content}}\n", user = "User: {{content}}",
    assistant = "\nAssistant: {{content}}<|end_of_sentence|>",
      stop_words = { "<|end_of_sentence|>" }, replace_eos = true,
  },
}
