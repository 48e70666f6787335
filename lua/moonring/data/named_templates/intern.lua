-- Chat templates of InternLM and InternVL. Fields: data/template_fields.lua.
return {
  {
    name = "intern2", like = "yi", prefix = { { "bos" } },
    default_system = "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) "
      .. "is a conversational language model that is " ..
      "developed by Shanghai AI Laboratory (上海人工智能实验室). It is designed to be helpful, honest, and "
        .. "harmless.\n- InternLM (书生·浦语) " ..
      "can understand and communicate fluently in the language chosen by the user such as English "
        .. "and 中文.",
  },
  { name = "intern_vl", like = "intern2",
    default_system = "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。" },
  { name = "intern_s1", like = "intern2", default_system = "" },
}
