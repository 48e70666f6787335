--- The fields of each request of OpenAI's API that the service answers. What a row holds:
-- request_fields.lua. Fields beyond OpenAI's are those of vLLM, by the same names.
local request_fields = require "moonring.serve.openai.request_fields"
local null = require("moonring.native.system").null

---@class moonring.serve.openai.field_rows
---@field completions moonring.serve.openai.FieldRow[]
---@field chat_completions moonring.serve.openai.FieldRow[]
---@field tokenize moonring.serve.openai.FieldRow[]
---@field detokenize moonring.serve.openai.FieldRow[]
local field_rows = {}

local REQUIRED = request_fields.REQUIRED
local EMPTY = {} -- {} or [] of JSON

-- How tokens are chosen.
local SAMPLING = {
  { "temperature", "number", 1, "0: the likeliest token; log-probs are those at this temperature "
    .. "(at 1 for 0)", least = 0 },
  { "top_p", "number", 1, "samples from the fewest tokens whose probabilities sum to this",
    above = 0, most = 1 },
  { "top_k", "integer", 0, "samples from this many likeliest tokens; 0 or -1: all", least = -1 },
  { "min_p", "number", 0, "least probability of a token, as a fraction of the largest", least = 0,
    most = 1 },
  { "repetition_penalty", "number", 1, "logits of tokens that the text has already are divided by "
    .. "this if positive, and multiplied by it if not", above = 0 },
  { "seed", "integer", null, "the same request with the same seed draws the same tokens, whatever "
    .. "else runs; absent: a fresh one" },
  { "n", "integer", 1, "answers to each prompt", least = 1, most = 128 },
  { "stop", "texts", EMPTY, "texts before which the answer ends", most = 16 },
  { "stop_token_ids", "ids", EMPTY, "ids that end the answer, in addition to the model's own",
    most = 256 },
  { "ignore_eos", "boolean", false, "the model's own end tokens do not end the answer" },
  { "include_stop_str_in_output", "boolean", false, "the answer's text keeps the stop text" },
  { "skip_special_tokens", "boolean", true, "the answer's text has no special tokens" },
  { "presence_penalty", "number", 0, "", only = { 0 }, refused = "use repetition_penalty" },
  { "frequency_penalty", "number", 0, "", only = { 0 }, refused = "use repetition_penalty" },
  { "logit_bias", "any", EMPTY, "", only = { EMPTY } },
  { "min_tokens", "integer", 0, "", only = { 0 } },
}

-- How answers are sent, and fields without an effect.
local ANSWERS = {
  { "stream", "boolean", false, "sends the text in pieces, as server-sent events" },
  { "stream_options", "object", EMPTY, "`include_usage`: a last piece with the counts of tokens" },
  { "user", "text", null, "", idle = "it names a user of the client" },
  { "metadata", "any", null, "", idle = "nothing is stored" },
  { "safety_identifier", "text", null, "", idle = "it names a user of the client" },
}

local function joined(...)
  local rows = {}
  for _, list in ipairs { ... } do
    for _, row in ipairs(list) do rows[#rows + 1] = row end
  end
  return rows
end

local MODEL = { "model", "text", REQUIRED, "a base model's name, a tinker:// path or a sampling "
  .. "session" }

--- POST /v1/completions.
field_rows.completions = joined({
  MODEL,
  { "prompt", "any", REQUIRED, "a text, a list of texts, a list of token ids, or a list of such "
    .. "lists" },
  { "max_tokens", "integer", 16, "most tokens of an answer; 0 with `echo`: none", least = 0 },
  { "echo", "boolean", false, "the text begins with the prompt, and log-probs with its tokens'" },
  { "logprobs", "integer", null, "log-probs of each token, and of so many likeliest ones",
    least = 0, most = 20 },
  { "add_special_tokens", "boolean", false, "puts the tokenizer's bos before a prompt that is a "
    .. "text; by default a text is only its own tokens, as lm-eval expects (vLLM's default is "
    .. "true)" },
  { "best_of", "integer", null, "must be equal to `n`" },
  { "suffix", "text", "", "", only = { "" } },
}, SAMPLING, ANSWERS)

local TEMPLATE = {
  { "messages", "any", REQUIRED, "the conversation: `role` (system, developer, user, assistant, "
    .. "tool), `content` (a text or a list of text parts, joined by line breaks), `name`, "
    .. "`tool_calls`, `tool_call_id`, `reasoning_content`" },
  { "tools", "any", null, "functions that the template describes to the model; a call that the "
    .. "model writes is part of the text" },
  { "chat_template_kwargs", "object", null, "variables of the model's template, such as "
    .. "`enable_thinking`" },
  { "add_generation_prompt", "boolean", null, "false: without the beginning of the assistant's "
    .. "turn" },
  { "continue_final_message", "boolean", null, "the last message is the beginning of the answer" },
}

--- POST /v1/chat/completions.
field_rows.chat_completions = joined({ MODEL }, TEMPLATE, {
  { "max_completion_tokens", "integer", null, "most tokens of an answer; absent: to the end of the "
    .. "model's context", least = 1 },
  { "max_tokens", "integer", null, "the same, by its older name", least = 1 },
  { "logprobs", "boolean", false, "log-probs of each token" },
  { "top_logprobs", "integer", 0, "and of so many likeliest ones; needs `logprobs`", least = 0,
    most = 20 },
  { "tool_choice", "any", "auto", "\"none\": tools are not described; \"auto\"", only = { "auto",
    "none" } },
  { "parallel_tool_calls", "boolean", null, "", idle = "calls are text that the model writes" },
  { "response_format", "any", null, "", only = { { type = "text" } } },
  { "functions", "any", null, "", only = { EMPTY }, refused = "use tools, its newer name" },
  { "function_call", "any", null, "", only = { "auto", "none" }, refused = "use tools" },
  { "modalities", "any", null, "", only = { { "text" } } },
  { "store", "boolean", false, "", only = { false } },
  { "service_tier", "text", null, "", idle = "there is one" },
  { "prompt_cache_key", "text", null, "", idle = "nothing is stored" },
}, SAMPLING, ANSWERS)

local ANY_MODEL = { "model", "text", null, "absent: the model of the command line" }

--- POST /tokenize.
field_rows.tokenize = joined({
  ANY_MODEL,
  { "prompt", "text", null, "a text; or `messages`" },
  { "add_special_tokens", "boolean", false, "puts the tokenizer's bos first" },
  { "return_token_strs", "boolean", false, "the tokens' texts, too" },
}, { { "messages", "any", null, "a conversation, encoded by the model's template" },
  unpack(TEMPLATE, 2) })

--- POST /detokenize.
field_rows.detokenize = {
  ANY_MODEL,
  { "tokens", "ids", REQUIRED, "token ids" },
}

return field_rows
