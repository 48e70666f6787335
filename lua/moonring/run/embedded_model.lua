--- A loaded model for the program that embeds the runtime: log-probs, tokens, completions and
-- answers. The Python class moonring.Model (lua/python/moonring/_model.py) calls these functions
-- through the C API; each takes one table. Text and ids of a completion are reported as they are
-- generated (system.tell_progress) if `stream` is true.
local attention = require "moonring.native.attention"
local autograd = require "moonring.native.autograd"
local chat = require "moonring.run.chat"
local comm = require "moonring.native.comm"
local compute = require "moonring.choices.compute"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local objectives = require "moonring.native.objectives"
local ops = require("moonring.native.operators").ops
local policy = require "moonring.model.policy"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local terminal = require "moonring.base.terminal"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.embedded_model
local embedded_model = {}

-- The keys that have an effect on a model that is not trained.
local KEYS = { "adapter_name_or_path", "add_special_tokens", "add_tokens", "bf16", "cache_dir",
  "cpu_products", "cutoff_len", "default_system", "double_quantization", "enable_thinking",
  "finetuning_type", "fp16", "fp64", "hf_hub_token", "infer_dtype", "init_special_tokens",
  "logit_rows", "micro_batch_tokens", "model_name_or_path", "model_revision",
  "new_special_tokens_config", "pure_bf16", "quantization_bit", "quantization_method",
  "quantization_type", "residual_dtype", "resize_vocab", "rope_scaling", "skip_special_tokens",
  "split_special_tokens", "template", "tile_mib", "tile_rows", "use_cpu" }
local FORWARD_TOKENS = 8192 -- tokens per forward if micro_batch_tokens is not given

local opened -- { config, checkpoint, tokenizer or no_tokenizer (an error), model, mesh, plans }

local function check_keys(words)
  local known = {}
  for _, name in ipairs(KEYS) do known[name] = true end
  for _, word in ipairs(words) do
    local name = word:match "^[%w_]+"
    if not known[name] then
      errors.fail(name, ": not a key of a model that is only used", system.did_you_mean(name, KEYS),
        "; keys: ", table.concat(KEYS, ", "))
    end
  end
end

local function tokenizer()
  return opened.tokenizer or error(opened.no_tokenizer, 0)
end

--- Opens the model of this runtime.
---@param given { path: string, words: string[] } a model, an adapter's folder or a YAML
---   (chat.configuration), and key=value
---@return { path: string, vocab_size: integer, max_length: integer }
function embedded_model.open(given)
  local c = chat.configuration(given.path, given.words)
  check_keys(given.words)
  local checkpoint, notes = policy.open(c)
  local tokens, no_tokenizer = vocabulary.find(c, checkpoint)
  local mesh = comm.mesh { alone = true, device = compute.device(c) }
  opened = { config = c, checkpoint = checkpoint, mesh = mesh, templates = {},
    tokenizer = tokens, no_tokenizer = no_tokenizer, model = policy.load(c, checkpoint),
    plans = attention.create { mesh = mesh, device = compute.device(c) } }
  for _, list in ipairs { notes, c.notes } do
    for _, line in ipairs(list) do terminal.note(line, "\n") end
  end
  return { path = checkpoint:path(), vocab_size = checkpoint:vocab_size(),
    max_length = checkpoint:max_position_embeddings() }
end

-- Refuses ids that the model has no row for. `where` describes the place of the first id.
local function check_id(id, place)
  local rows = opened.checkpoint:vocab_size()
  if id < 0 or id >= rows then
    errors.fail(place, ": expected a token id from 0 to ", rows - 1, ", got ", id)
  end
end

-- Divides a flat list of ids into documents, and these into lists for one forward each. Documents
-- without a prediction (of fewer than two tokens) are left out.
local function packs(ids, lengths, batched)
  local c = opened.config
  local most = c.given.micro_batch_tokens and c.micro_batch_tokens or FORWARD_TOKENS
  local list, tokens, start = {}, math.huge, 0
  for d, length in ipairs(lengths) do
    local document = {}
    for i = 1, length do
      local place = batched and ("ids[%d][%d]"):format(d - 1, i - 1) or ("ids[%d]"):format(i - 1)
      check_id(ids[start + i], place)
      document[i] = ids[start + i]
    end
    start = start + length
    if length > 1 then
      if tokens + length > most then list[#list + 1], tokens = {}, 0 end
      table.insert(list[#list], document)
      tokens = tokens + length
    end
  end
  return list
end

-- The log-probs of a packed stream's predictions, in order.
local function log_probs_of(documents)
  local model = opened.model
  local ids, positions, targets, plan = opened.plans:cut(comm.sequence { documents = documents })
  local hidden = model:forward(ids, positions, plan)
  local log_prob = objectives.log_prob(hidden, model:head(), targets,
    { dtype = model:matmul_dtype() })
  return log_prob:masked_select(targets:on(log_prob):ge(0))
end

--- Computes the log-prob of each token given the earlier ones of its document, except for each
--- document's first token.
---@param given { lengths: integer[], batched: boolean, shape?: integer[] } tokens of each document;
---   whether error messages name the document; shape of the result
---@param ids_T moonring.Tensor integers, all documents one after another
---@return nil
---@return moonring.Tensor log_probs fp32 or fp64, on the device of ids_T: by default in one dim,
---   those of all documents one after another
function embedded_model.log_probs(given, ids_T)
  local kind = ids_T:dtype()
  if not (kind:find "^u?int" or kind == "int64") then
    errors.fail("ids: expected integers, got a tensor of ", kind)
  end
  local flat = ids_T:to("int64"):reshape { -1 }:to("cpu"):tolist()
  local parts = {}
  for i, documents in ipairs(packs(flat, given.lengths, given.batched)) do
    if system.preemption() then break end -- interrupted: the result is dropped
    parts[i] = tensor.scope(function()
      return autograd.no_grad(function() return log_probs_of(documents) end)
    end)
  end
  local all = #parts > 0 and ops.cat(parts) or tensor.tensor({}, "fp32")
  return nil, (given.shape and all:reshape(given.shape) or all):on(ids_T)
end

--- Tokenizes a text; `bos` puts the bos token first if the tokenizer does so.
---@param given { text: string, bos: boolean }
---@return integer[]
function embedded_model.tokenize(given)
  local ids, bos = tokenizer():encode(given.text), tokenizer():leading_bos()
  if given.bos and bos and ids[1] ~= bos then table.insert(ids, 1, bos) end
  return ids
end

--- Converts ids to text; `skip_special` leaves special tokens out.
---@param given { ids: integer[], skip_special: boolean }
---@return string
function embedded_model.detokenize(given)
  for i, id in ipairs(given.ids) do
    local most = tokenizer():end_id()
    if id < 0 or id >= most then
      errors.fail("ids[", i - 1, "]: expected a token id from 0 to ", most - 1, ", got ", id)
    end
  end
  return tokenizer():decode(given.ids, given.skip_special)
end

-- The template of a conversation with this system message; nil: that of the configuration.
local function template_of(system_text)
  local key = system_text or false
  if not opened.templates[key] then
    local c = setmetatable({ default_system = system_text }, { __index = opened.config })
    local template, note = chat.template(c, opened.checkpoint, tokenizer())
    if note and not next(opened.templates) then terminal.note(note, "\n") end
    opened.templates[key] = template
  end
  return opened.templates[key]
end

-- Raises an error if the call was cancelled or interrupted. Generating calls it for each token,
-- because the hook that checks this runs only after many instructions.
local function check_interrupt()
  if system.preemption() then errors.raise("CANCELLED", "the call was interrupted") end
end

--- Continues a prompt.
---@param given { text?: string, ids?: integer[], options: moonring.GenerateOptions, stream:
---   boolean } a text or ids; stop_ids default to those of the model's chat template
---@return { ids: integer[], text?: string } what was generated; for a text the new text, without
---   special tokens
function embedded_model.generate(given)
  local options = given.options
  local ids = given.ids or embedded_model.tokenize { text = given.text, bos = true }
  for i, id in ipairs(ids) do check_id(id, ("prompt[%d]"):format(i - 1)) end
  if #ids == 0 then errors.fail "prompt: expected at least one token, got none" end
  options.stop_ids = options.stop_ids or template_of(nil):stop_ids()
  local new, shown = {}, 0
  local all = opened.model:generate(ids, options, function(id)
    check_interrupt()
    if not given.stream then return end
    new[#new + 1] = id
    if given.ids then return system.tell_progress { event = "token", id = id } end
    local whole = tokenizer():decode(new, true)
    if whole:sub(-3) ~= "\239\191\189" then -- U+FFFD: the last character is incomplete
      system.tell_progress { event = "text", text = whole:sub(shown + 1) }
      shown = #whole
    end
  end)
  if given.ids then return { ids = all } end
  local text = tokenizer():decode(all, true)
  if given.stream and shown < #text then
    system.tell_progress { event = "text", text = text:sub(shown + 1) }
  end
  return { ids = all, text = text }
end

--- Answers the last message of a conversation.
---@param given { texts: string[], system?: string, options: moonring.GenerateOptions, stream:
---   boolean } messages of user and model in turn, the user's first and last
---@return string
function embedded_model.chat(given)
  local c = opened.config
  local conversation = chat.new(opened.model, tokenizer(), template_of(given.system),
    given.options, not c.skip_special_tokens)
  local last = table.remove(given.texts)
  conversation.texts = given.texts
  local answer = conversation:answer(last, function(piece)
    check_interrupt()
    if given.stream then system.tell_progress { event = "text", text = piece } end
  end)
  return answer
end

--- Reads the configuration of a training: its output_dir, and the number of ranks that have to be
--- started. The number is 1 if the environment makes this process one of the ranks, and where
--- the command will refuse the number of experts.
---@param given { path?: string, words: string[] }
---@return { output_dir?: string, ranks: integer }
function embedded_model.training(given)
  local c = config.load(given.path, given.words)
  local starts = system.world_size() == 0 and c.expert_parallel_size >= 1
  return { output_dir = c.output_dir, ranks = starts and compute.ranks(c) or 1 }
end

return embedded_model
