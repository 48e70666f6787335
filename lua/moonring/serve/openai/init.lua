--- The routes of OpenAI's API: completions, chat_completions, and those of the tokenizer.
local chat_completions = require "moonring.serve.openai.chat_completions"
local completions = require "moonring.serve.openai.completions"
local tokens = require "moonring.serve.openai.tokens"

---@class moonring.serve.openai
---@field handlers table<string, moonring.serve.SampledRoute> for sampled_jobs.run
--- `routes`: handlers of the other routes, whose results are the responses.
---@field routes table<string, fun(service: moonring.Service, job: table, request: table): table>
local openai = {}

--- Handlers for sampled_jobs.run, by route.
---@type table<string, moonring.serve.SampledRoute>
openai.handlers = { completions = completions, chat_completions = chat_completions }

--- Handlers of the other routes: their results are the responses.
---@type table<string, fun(service: moonring.Service, job: table, request: table): table>
openai.routes = { tokenize = tokens.tokenize, detokenize = tokens.detokenize,
  tokenizer_info = tokens.tokenizer_info }

return openai
