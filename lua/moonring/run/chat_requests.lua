--- The process that answers the chat of `moonring watch`: it loads one model, as `moonring chat`
-- does, and answers requests, which are lines of JSON on stdin, one after another. Its events are
-- JSON lines on stdout: { loaded = true } once; for each request { text } with pieces of the answer
-- and { done = "end" | "length" | "stopped", tokens, seconds }; { note } and { error } at any time.
-- A line { stop = true } ends the current answer. The process ends when its stdin does.
local chat = require "moonring.run.chat"
local compute = require "moonring.choices.compute"
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local models = require "moonring.model"
local packing = require "moonring.model.packing"
local policy = require "moonring.model.policy"
local system = require "moonring.native.system"
local vocabulary = require "moonring.data.vocabulary"
local watch_native = require "moonring.native.watch"

---@class moonring.chat_requests
local chat_requests = {}

---@class moonring.ChatRequest
---@field texts string[] user and model in turn, the user's first and last
---@field system? string replaces default_system
---@field sampling moonring.GenerateOptions

local WORD_BYTES = { fp32 = 4, bf16 = 4, fp16 = 4, pure_bf16 = 2, fp64 = 8 }
local BESIDE = 0.3 * 2 ^ 30 -- bytes of the process without the weights

local function emit(event)
  io.write(system.json_encode(event), "\n")
  io.flush()
end

-- The bytes that the loaded weights take.
local function weight_bytes(c, checkpoint)
  local numbers, packed = 0, 0
  for _, part in ipairs(checkpoint:parts()) do numbers = numbers + part.parameters end
  local code = packing.of(c)
  if code then
    local sizes = checkpoint:packed_sizes(code)
    numbers, packed = numbers - sizes.numbers, sizes.bytes
  end
  return numbers * WORD_BYTES[compute.precision(c)] + packed
end

local TOO_LARGE = "the model needs %s of memory beside what else runs on this machine, and %s are "
  .. "available: chat when the training has ended, or on another machine: moonring chat"

-- Refuses a model for which there is not enough memory now: the training goes first.
local function check_memory(c, checkpoint)
  local bytes = weight_bytes(c, checkpoint) + BESIDE
  local available = machine.memory_of_rank(compute.device(c), 1)
  if available and bytes > available then
    errors.raise("RESOURCE_EXHAUSTED", TOO_LARGE:format(machine.show(bytes),
      machine.show(available)))
  end
end

local function load(path, words)
  local c = chat.configuration(path, words)
  local checkpoint = models.open(c.model_name_or_path, c)
  check_memory(c, checkpoint)
  local tokenizer = vocabulary.open(c, checkpoint)
  local opened = { config = c, checkpoint = checkpoint, tokenizer = tokenizer,
    model = policy.load(c, checkpoint) }
  local _, note = chat.template(c, checkpoint, tokenizer)
  c.notes[#c.notes + 1] = note
  for _, line in ipairs(c.notes) do emit { note = line } end
  return opened
end

-- The template of a conversation with this system message; nil: that of the configuration.
local function template_of(opened, system_text)
  local c = setmetatable({ default_system = system_text }, { __index = opened.config })
  return (chat.template(c, opened.checkpoint, opened.tokenizer))
end

local function is_stop(line)
  local ok, value = pcall(system.json_decode, line, "request")
  return ok and value.stop == true
end

local function answer(opened, input, request)
  local conversation = chat.new(opened.model, opened.tokenizer,
    template_of(opened, request.system), request.sampling, not opened.config.skip_special_tokens)
  local last, stopped, began = table.remove(request.texts), false, system.clock()
  conversation.texts = request.texts
  local _, tokens, is_ended = conversation:answer(last, function(piece)
    if piece ~= "" then emit { text = piece } end
  end, function()
    local line = input:take(0)
    stopped = stopped or input:ended() or line ~= nil and is_stop(line)
    return stopped
  end)
  emit { done = stopped and "stopped" or is_ended and "end" or "length", tokens = tokens,
    seconds = system.clock() - began }
end

--- Answers requests until stdin ends. Words: the working directory ("": the current one), a path as
--- for `moonring chat`, key=value.
---@param words string[]
function chat_requests.serve(words)
  watch_native.give_way()
  local input = watch_native.input()
  local ok, opened = pcall(function()
    if words[1] ~= "" then watch_native.work_in(words[1]) end
    return load(words[2], { unpack(words, 3) })
  end)
  if not ok then return emit { error = errors.words(opened) } end
  emit { loaded = true }
  while not input:ended() do
    local line = input:take(3600)
    if line and not is_stop(line) then
      local done, why = pcall(answer, opened, input, system.json_decode(line, "request"))
      if not done then emit { error = errors.words(why) } end
    end
  end
end

return chat_requests
