--- Makes the text of `moonring inspect` for a checkpoint: family, parameters by module, memory for
-- training, tokenizer and template.
local config = require "moonring.config"
local data = require "moonring.data"
local machine = require "moonring.base.machine"
local errors = require "moonring.base.errors"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"

---@class moonring.inspect
local inspect = {}

---@class moonring.RecipeMemory
---@field name string "full, fp32"
---@field states number bytes of weights, gradients and AdamW's moments
---@field activations number bytes of activations of a micro-batch, with blocks recomputed
---@field peak number peak bytes: gradients are allocated while activations are freed

local grouped = machine.grouped

local function gibibytes(bytes) return ("%.2f GiB"):format(bytes / 2 ^ 30) end

-- The recipes for which memory is predicted, each with its keys of the configuration.
local RECIPES = {
  { "full, fp32", { finetuning_type = "full" } },
  { "full, bf16: true", { finetuning_type = "full", bf16 = true } },
  { "full, pure_bf16: true", { finetuning_type = "full", pure_bf16 = true } },
  { "LoRA (rank 8, all), bf16: true", { bf16 = true } },
  { "LoRA (rank 8, all), fp32", {} },
}

--- Predicts the memory of each recipe on one rank, for a micro-batch of `tokens` tokens.
---@param checkpoint moonring.Checkpoint
---@param tokens integer
---@return moonring.RecipeMemory[]
function inspect.memory(checkpoint, tokens)
  local recipes, defaults = {}, config.load(nil,
    { "per_device_train_batch_size=1", "cutoff_len=" .. tokens })
  for i, recipe in ipairs(RECIPES) do
    local c = setmetatable(recipe[2], { __index = defaults })
    local found = memory.predict(memory_facts.run(c, checkpoint, { ranks = 1, device = "cpu" }))
    local function sum(name, parts)
      local total = 0
      for _, moment in ipairs(found.moments) do
        for _, part in ipairs(moment.name == name and parts or {}) do
          total = total + moment.parts[part]
        end
      end
      return total
    end
    recipes[i] = { name = recipe[1], states = sum("step", { "weights", "gradients", "optimizer" }),
      activations = sum("top block", { "checkpoints", "attention", "block" }),
      peak = found.total }
  end
  return recipes
end

local function tokenizer_lines(checkpoint)
  local found, tokenizer = pcall(data.tokenizer, checkpoint)
  if not found then
    return "tokenizer    none that can be read: " .. errors.words(tokenizer)
  end
  local read, carried = pcall(data.model_template, checkpoint, tokenizer)
  local there = read and (carried and "there" or "none") or "there, and cannot be read: "
    .. errors.words(carried)
  return ("tokenizer    %s ids; chat template: %s"):format(grouped(tokenizer:vocab_size()), there)
end

--- Family, sizes, parameters by module, tokenizer, template and memory, as lines of text.
---@param checkpoint moonring.Checkpoint
---@param tokens integer
---@return string
function inspect.text(checkpoint, tokens)
  local facts, lines = checkpoint:facts(), {}
  local function say(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  local name, path = checkpoint:name(), checkpoint:path()
  say(name == path and "%s" or "%s (%s)", name, path)
  say("family       %s (%s)", facts.family, facts.architecture)
  say("shape        %d layers, hidden %d, %d query heads and %d kv heads of %d, %s %d, vocabulary "
    .. "%s", facts.layers, facts.hidden_size, facts.heads, facts.kv_heads,
    facts.head_dim, facts.experts > 0 and "dense mlp" or "mlp", facts.intermediate_size,
      grouped(facts.vocab_size))
  if facts.key_value_rank > 0 then
    say("latents      keys and values of %d numbers, queries of %s; a key of %d, of which %s turn, "
      .. "a value of %d", facts.key_value_rank, facts.query_rank > 0 and facts.query_rank
      or "the stream", facts.head_dim, facts.turning_layers > 0 and facts.rotary_dim
      or "none", facts.attention_value_dim)
  end
  if facts.experts > 0 then
    say("experts      %d of %d, %d of them for a token%s", facts.experts,
      facts.expert_intermediate_size, facts.experts_chosen, facts.expert_width > 0
      and (", which they see in %d features"):format(facts.expert_width) or "")
  end
  if facts.attention_layers < facts.layers then
    local kinds = {}
    for _, mixer in ipairs(facts.mixers) do
      kinds[#kinds + 1] = ("%d %s"):format(mixer.layers, mixer.text)
    end
    if facts.unmixed_layers > 0 then
      local dense = facts.mlp_layers - facts.expert_layers
      if dense > 0 then kinds[#kinds + 1] = ("%d an MLP alone"):format(dense) end
      if facts.expert_layers > 0 then
        kinds[#kinds + 1] = ("%d experts alone"):format(facts.expert_layers)
      end
    end
    say("layers       %s", table.concat(kinds, ", "))
  end
  if facts.sliding_layers > 0 then
    say("window       %d tokens in %d of %d layers", facts.window, facts.sliding_layers,
      facts.layers)
  end
  say("context      %s positions; rotary embedding: %s", grouped(facts.max_position_embeddings),
    facts.turning_layers > 0 and checkpoint:rope() or "none")
  local held = "none are here: this is a configuration alone"
  local dtypes = table.concat(facts.dtypes, " and ")
  if dtypes ~= "" then held = ("%s in the files, %s"):format(dtypes, gibibytes(facts.bytes)) end
  say("weights      %s%s", held, facts.tied and "; the head is the embedding" or "")
  local total, active = 0, 0
  for _, part in ipairs(checkpoint:parts()) do
    total, active = total + part.parameters, active + part.active
  end
  say("parameters   %s%s", grouped(total), active < total and ", " .. grouped(active)
    .. " of them for a token" or "")
  for _, part in ipairs(checkpoint:parts()) do
    say("  %-16s%15s  %5.1f%%", part.name, grouped(part.parameters), 100 * part.parameters / total)
  end
  local extra = checkpoint:extra_weights()
  if #extra > 0 then say("unused       %d tensors in the files, such as %s", #extra, extra[1]) end
  if dtypes ~= "" then lines[#lines + 1] = tokenizer_lines(checkpoint) end
  say("to train     on one rank, %s tokens at a time, AdamW, recompute: block", grouped(tokens))
  for _, recipe in ipairs(inspect.memory(checkpoint, tokens)) do
    say("  %-31s%11s of states, %11s of activations, %11s at most", recipe.name,
      gibibytes(recipe.states), gibibytes(recipe.activations), gibibytes(recipe.peak))
  end
  return table.concat(lines, "\n")
end

return inspect
