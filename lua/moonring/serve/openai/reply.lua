--- The reply to a request for completions or for chat: one response, or a stream of parts.
local choices = require "moonring.serve.openai.choices"
local error_form = require "moonring.serve.openai.error_form"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.openai.reply
local reply = {}

local JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"

--- How a kind of request forms its answers.
---@class moonring.serve.openai.Form
---@field id string beginning of a response's id
---@field object string
---@field part_object string of a streamed part
--- `choice(reply, choice)` forms a whole answer. `opening(reply, choice)` forms the first part of a
--- stream, `part(reply, choice, text, tokens, reason)` a further one; the last one has a reason.
---@field choice fun(...): table
---@field part fun(...): table
---@field opening? fun(...): table

--- The reply to a request, on rank 0.
---@class moonring.serve.openai.Reply
---@field door moonring.ServeDoor
---@field job moonring.serve.Job
---@field read table the request's fields
---@field form moonring.serve.openai.Form
---@field tokenizer moonring.Tokenizer
---@field prompts { ids: integer[], text: string? }[]
---@field choices moonring.serve.openai.Choice[] prompt by prompt
---@field begun boolean whether a streamed response has begun
local Reply = {}
Reply.__index = Reply

--- Fields that every response and streamed part has.
---@param object string
---@return table
function Reply:head(object)
  local id = tostring(self.job.id):gsub("[^%w]", "-")
  return { id = self.form.id .. id, object = object, created = self.created,
    model = self.read.model }
end

--- The counts of tokens.
---@return table
function Reply:usage()
  local prompt, completion = 0, 0
  for _, each in ipairs(self.prompts) do prompt = prompt + #each.ids end
  for _, choice in ipairs(self.choices) do completion = completion + #choice.tokens end
  return { prompt_tokens = prompt, completion_tokens = completion,
    total_tokens = prompt + completion }
end

--- Sends a part of a streamed response. Returns false if the client has left.
---@param part_choices table[]
---@param usage? table
---@return boolean
function Reply:send(part_choices, usage)
  if not self.begun then
    self.begun = true
    self.door:begin(self.job.id, EVENTS)
  end
  local part = self:head(self.form.part_object)
  part.choices = part_choices
  if self.read.stream_options.include_usage == true then part.usage = usage or system.null end
  return self.door:send(self.job.id, "data: " .. system.json_encode(part) .. "\n\n")
end

--- Sends the parts that begin every choice.
function Reply:open()
  if self.opened then return end
  self.opened = true
  for _, choice in ipairs(self.choices) do
    if self.form.opening then self:send { self.form.opening(self, choice) } end
  end
end

--- Takes a token of a choice as it comes. Returns false if the client has left.
---@param choice moonring.serve.openai.Choice
---@param id integer
---@param log_prob number
---@param top? moonring.TopTokens
---@return boolean
function Reply:token(choice, id, log_prob, top)
  local text, token = choice:push(id, log_prob, top)
  if not self.read.stream then return not self.door:gone(self.job.id) end
  self:open()
  if text == "" and not self.wants_log_probs then return not self.door:gone(self.job.id) end
  return self:send { self.form.part(self, choice, text, { token }) }
end

--- Replies, or ends the stream: the answers have ended.
---@param answers moonring.RolloutAnswer[][]
function Reply:done(answers)
  local per_prompt = self.read.n
  for i, choice in ipairs(self.choices) do
    local answer = answers[math.floor((i - 1) / per_prompt) + 1][(i - 1) % per_prompt + 1]
    for t = #choice.tokens + 1, #answer.ids do
      choice:push(answer.ids[t], answer.log_probs[t], answer.top and answer.top[t])
    end
    choice:finish(answer.stopped)
  end
  if self.read.stream then return self:finish_stream() end
  local body = self:head(self.form.object)
  body.choices, body.usage = {}, self:usage()
  for i, choice in ipairs(self.choices) do body.choices[i] = self.form.choice(self, choice) end
  self.door:reply(self.job.id, 200, JSON, system.json_encode(body))
end

--- Sends the last parts of a stream.
function Reply:finish_stream()
  self:open()
  for _, choice in ipairs(self.choices) do
    self:send { self.form.part(self, choice, choice.last_text, {}, choice.reason) }
  end
  if self.read.stream_options.include_usage == true then self:send({}, self:usage()) end
  self.door:send(self.job.id, "data: [DONE]\n\n")
  self.door:finish(self.job.id)
end

--- Replies with an error; in a stream that has begun, as its last part.
---@param why any
function Reply:fail(why)
  local code, message = errors.code(why), errors.words(why)
  local status, body = error_form.of(self.job.route, code, message)
  if not self.begun then
    return self.door:reply(self.job.id, status, JSON, system.json_encode(body))
  end
  self.door:send(self.job.id, "data: " .. system.json_encode(body) .. "\n\n")
  self.door:finish(self.job.id)
end

--- A reply with a choice for each answer that the request wants.
---@param service moonring.Service
---@param job moonring.serve.Job
---@param request moonring.serve.openai.Request
---@return moonring.serve.openai.Reply
function reply.new(service, job, request)
  local made = setmetatable({ door = service.door, job = job, read = request.read,
    form = request.form, tokenizer = request.tokenizer, prompts = request.prompts, choices = {},
    wants_log_probs = request.wants_log_probs, created = os.time(), begun = false }, Reply)
  for p = 1, #request.prompts do
    for _ = 1, request.read.n do
      local index = #made.choices
      made.choices[index + 1] = choices.new(made.tokenizer, request.read, p, index)
    end
  end
  return made
end

return reply
