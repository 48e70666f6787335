--- The model of a check: with a few thousand random weights, so that a check takes seconds. If a
-- configuration names a larger one, a small model of the same architecture and vocabulary is made.
local model = require "moonring.model"
local system = require "moonring.native.system"

---@class moonring.small_model
local small_model = {}

-- A model with at most this many weights is used as it is.
local SMALL = 2 ^ 21

local WORDS = 96 -- tokens of the vocabulary of the synthetic model, beside the special ones

-- The characters that stand for bytes in a byte-level tokenizer, for the printable ones of ASCII.
local function tokenizer_json()
  local ids, added = {}, {}
  for i = 0, WORDS - 1 do
    ids[i == 0 and "\196\160" or i == 95 and "\196\138" or string.char(32 + i)] = i
  end
  for i, text in ipairs { "<s>", "</s>", "<|im_start|>", "<|im_end|>" } do
    ids[text] = WORDS + i - 1
    added[i] = { id = WORDS + i - 1, content = text, special = true, single_word = false,
      lstrip = false, rstrip = false, normalized = false }
  end
  local bytes = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
    use_regex = true }
  return { version = "1.0", added_tokens = added, pre_tokenizer = bytes, decoder = bytes,
    model = { type = "BPE", vocab = ids, merges = {} } }, WORDS + #added
end

--- Writes a folder with the config.json and the tokenizer of a small Llama.
---@param folder string
---@return integer vocabulary
function small_model.write(folder)
  local tokenizer, vocabulary = tokenizer_json()
  system.make_folder(folder)
  system.write(folder .. "/tokenizer.json", system.json_encode(tokenizer))
  system.write(folder .. "/tokenizer_config.json", system.json_encode { bos_token = "<s>",
    eos_token = "</s>", pad_token = "</s>", tokenizer_class = "PreTrainedTokenizerFast" })
  system.write(folder .. "/config.json", system.json_encode {
    architectures = { "LlamaForCausalLM" }, model_type = "llama", hidden_size = 24,
    intermediate_size = 32, num_hidden_layers = 2,
    num_attention_heads = 4, num_key_value_heads = 2, head_dim = 6, vocab_size = vocabulary,
    max_position_embeddings = 4096, rms_norm_eps = 1e-6, rope_theta = 10000, hidden_act = "silu",
    initializer_range = 0.2, tie_word_embeddings = false, bos_token_id = WORDS,
    eos_token_id = WORDS + 1 })
  return vocabulary
end

-- New values of sizes in config.json, for those that it has. If there are kinds of layers, four are
-- kept.
local SIZES = { hidden_size = 32, intermediate_size = 48, moe_intermediate_size = 16,
  shared_expert_intermediate_size = 16, head_dim = 8, num_experts = 4, num_local_experts = 4,
  n_routed_experts = 4, num_experts_per_tok = 2, q_lora_rank = 16, kv_lora_rank = 16,
  qk_nope_head_dim = 8, qk_rope_head_dim = 8, v_head_dim = 8, linear_key_head_dim = 8,
  linear_value_head_dim = 8, linear_num_key_heads = 2, linear_num_value_heads = 4 }

local function shrink(c)
  local heads = 4
  local layers = c.layer_types and math.min(4, c.num_hidden_layers) or 2
  if c.num_attention_heads and c.num_key_value_heads then
    local kv_heads = math.floor(heads * c.num_key_value_heads / c.num_attention_heads)
    c.num_key_value_heads = math.max(1, kv_heads == 3 and 2 or kv_heads)
  end
  c.num_attention_heads, c.num_hidden_layers = heads, layers
  c.initializer_range = 0.2
  for name, size in pairs(SIZES) do
    if type(c[name]) == "number" then c[name] = math.min(c[name], size) end
  end
  for _, name in ipairs { "layer_types", "mlp_layer_types" } do
    for i = layers + 1, #(c[name] or {}) do c[name][i] = nil end
  end
end

local function write_companions(folder, checkpoint)
  for name, text in pairs(model.companions(checkpoint:path())) do
    if name ~= "config.json" then system.write(folder .. "/" .. name, text) end
  end
end

local function weights_of(checkpoint)
  local sum = 0
  for _, each in ipairs(checkpoint:weight_shapes()) do
    local size = 1
    for _, n in ipairs(each.shape) do size = size * n end
    sum = sum + size
  end
  return sum
end

--- Decides with which model a configuration is checked: its own if that is small, else a small one
--- of the same architecture and vocabulary, which is written into a folder.
---@param checkpoint moonring.Checkpoint
---@param folder string
---@return string? written the folder; nil: the model itself
---@return string said a sentence about it
function small_model.of(checkpoint, folder)
  local name, weights = checkpoint:name(), weights_of(checkpoint)
  if weights <= SMALL then return nil, ("%s (%d weights)"):format(name, weights) end
  system.make_folder(folder)
  local ok, why = pcall(function()
    local c = system.json_decode(checkpoint:config_json())
    shrink(type(c.text_config) == "table" and c.text_config or c)
    system.write(folder .. "/config.json", system.json_encode(c))
    write_companions(folder, checkpoint)
    local fresh = model.open_fresh(folder, 1)
    weights = weights_of(fresh)
    model.load(fresh, { precision = "fp64" }):save(folder, { write = true })
  end)
  if ok then
    return folder, ("a small one of the architecture and vocabulary of %s, with %d random weights")
      :format(name, weights)
  end
  return nil, ("%s itself, with %d weights: no small model of its architecture was made (%s)")
    :format(name, weights, tostring(why))
end

return small_model
