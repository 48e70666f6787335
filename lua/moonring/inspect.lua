--- What `moonring inspect` tells of a checkpoint: its family, its parameters by part, the memory that training it takes, its tokenizer and template.
local data = require "moonring.native.data"

local inspect = {}

local function grouped(number)
  local text = ("%d"):format(number)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local function gibibytes(bytes) return ("%.2f GiB"):format(bytes / 2 ^ 30) end

-- Rank 8 on every linear map, as `lora_target: all` takes them.
local function adapter_parameters(checkpoint)
  local sum = 0
  for _, map in ipairs(checkpoint:linear_maps()) do sum = sum + 8 * (map.rows + map.columns) end
  return sum
end

--- Memory in bytes that each recipe takes on one rank, of a stream of `tokens` tokens: a list of { name, states, activations }.
--   states       weights, gradients (fp32) and AdamW's two moments (fp32) of what learns; what is frozen in the dtype of the matrix products
--   activations  recompute: block: the input of every block, fp32; one block's own work again; 64 MiB of logits at a time
function inspect.memory(checkpoint, tokens)
  local facts, total = checkpoint:facts(), 0
  for _, part in ipairs(checkpoint:parts()) do total = total + part.parameters end
  local adapter = adapter_parameters(checkpoint)
  local width = facts.experts > 0 and facts.experts_chosen * facts.expert_intermediate_size or facts.intermediate_size
  local kept = (facts.layers + 1) * tokens * facts.hidden_size * 4
  local heads = (facts.heads + 2 * facts.kv_heads) * facts.head_dim
  local function activations(bytes) return kept + tokens * (6 * facts.hidden_size * 4 + (2 * heads + 3 * width) * bytes) + 2 ^ 26 end
  return {
    { name = "full, fp32", states = 16 * total, activations = activations(4) },
    { name = "full, bf16: true", states = 16 * total, activations = activations(2) },
    { name = "full, pure_bf16: true", states = 14 * total, activations = activations(2) },
    { name = "LoRA (rank 8, all), bf16: true", states = 2 * total + 16 * adapter, activations = activations(2) },
    { name = "LoRA (rank 8, all), fp32", states = 4 * total + 16 * adapter, activations = activations(4) },
  }
end

local function tokenizer_lines(checkpoint)
  local found, tokenizer = pcall(data.tokenizer, checkpoint)
  if not found then return "tokenizer    none that can be read: " .. tostring(tokenizer):gsub("^.-: ", "", 1) end
  local read, carried = pcall(data.model_template, checkpoint, tokenizer)
  local there = read and (carried and "there" or "none") or "there, and cannot be read: " .. tostring(carried):gsub("^.-: ", "", 1)
  return ("tokenizer    %s ids; chat template: %s"):format(grouped(tokenizer:vocab_size()), there)
end

--- The whole text.
function inspect.text(checkpoint, tokens)
  local facts, lines = checkpoint:facts(), {}
  local function say(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  say("%s", checkpoint:path())
  say("family       %s (%s)", facts.family, facts.architecture)
  say("shape        %d layers, hidden %d, %d query heads and %d kv heads of %d, %s %d, vocabulary %s", facts.layers, facts.hidden_size, facts.heads, facts.kv_heads,
    facts.head_dim, facts.experts > 0 and "dense mlp" or "mlp", facts.intermediate_size, grouped(facts.vocab_size))
  if facts.experts > 0 then say("experts      %d of %d, %d of them for a token", facts.experts, facts.expert_intermediate_size, facts.experts_chosen) end
  if facts.sliding_layers > 0 then say("window       %d tokens in %d of %d layers", facts.window, facts.sliding_layers, facts.layers) end
  say("context      %s positions; rotary embedding: %s", grouped(facts.max_position_embeddings), checkpoint:rope())
  say("weights      %s in the files, %s%s", table.concat(facts.dtypes, " and "), gibibytes(facts.bytes), facts.tied and "; the head is the embedding" or "")
  local total, active = 0, 0
  for _, part in ipairs(checkpoint:parts()) do total, active = total + part.parameters, active + part.active end
  say("parameters   %s%s", grouped(total), active < total and ", " .. grouped(active) .. " of them for a token" or "")
  for _, part in ipairs(checkpoint:parts()) do say("  %-13s%18s  %5.1f%%", part.name, grouped(part.parameters), 100 * part.parameters / total) end
  local extra = checkpoint:extra_weights()
  if #extra > 0 then say("unused       %d tensors in the files, such as %s", #extra, extra[1]) end
  lines[#lines + 1] = tokenizer_lines(checkpoint)
  say("to train     on one rank, %s tokens at a time, AdamW, recompute: block", grouped(tokens))
  for _, recipe in ipairs(inspect.memory(checkpoint, tokens)) do
    say("  %-31s%11s of states + %11s of activations", recipe.name, gibibytes(recipe.states), gibibytes(recipe.activations))
  end
  return table.concat(lines, "\n")
end

return inspect
