--- Draws an attention map of a Llama model: the attention weight from each token of a text to every
-- other token, for one head of one block. The weights are recomputed from the hidden states before
-- the block; those of all heads are written to a .safetensors file next to the picture. Each rank
-- computes the rows of its own query tokens over all keys, so the result is the same for any sp.
-- moonring scripts/examples/attention_map.lua model=DIR layer=2 head=0 text="The moon rose." sp=2
local moonring = require "moonring"
local ops, system = moonring.ops, moonring.system
local opt = moonring.flags { model = moonring.required, text = "The moon rose over the harbour.",
  layer = 0, head = 0, sp = 1, strategy = "zigzag-ring", precision = "fp32", out = "attention" }
moonring.launch(opt.sp)
local mesh = moonring.comm.mesh { sp = opt.sp }
local checkpoint = moonring.model.open(opt.model)
local facts = checkpoint:facts()
local config = system.json_decode(system.read(opt.model .. "/config.json"))
assert(facts.architecture == "LlamaForCausalLM" and checkpoint:rope_kind() == "default",
  "expected a Llama with a plain rotary embedding")
local model = moonring.model.load(checkpoint, { frozen = true, precision = opt.precision })
local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
local tokenizer = moonring.data.tokenizer(checkpoint)
local ids = tokenizer:encode(opt.text)
local sequence = moonring.comm.sequence { documents = { ids } }
local own_ids, positions, _, plan = attention:cut(sequence) -- this rank's shard
local rows = attention:layout(sequence):indices()[mesh:sp_rank() + 1]
local _, states = model:forward(own_ids, positions, plan, { states = { opt.layer },
  upto = opt.layer })

local parameters = {}
for _, each in ipairs(model:parameters():list()) do parameters[each:name()] = each end
local function weight(name)
  return parameters[("model.layers.%d.%s.weight"):format(opt.layer, name)]:weight()
end

-- Splits queries or keys into heads and rotates them (Su et al. 2021, arXiv 2104.09864): [T_local,
-- heads, head_dim].
local function heads_of(x, heads)
  local a, b = unpack(x:view(-1, heads, facts.head_dim):chunk(2, -1))
  local turns = moonring.arange(0, facts.head_dim, 2, { dtype = "fp64" }) / facts.head_dim
  local angle = (positions:unsqueeze(1) * config.rope_theta ^ -turns):unsqueeze(1)
  local cos, sin = angle:cos():to(x), angle:sin():to(x)
  return moonring.cat({ a * cos - b * sin, b * cos + a * sin }, -1)
end

local function of_all_ranks(own) -- the rows of all ranks, in the order of the text
  return mesh:sum_sp(own:new_zeros { #ids, own:size(1), own:size(2) }:index_copy_(0, rows, own))
end

local x = ops.rms_norm(states[opt.layer], { facts.hidden_size }, weight "input_layernorm",
  config.rms_norm_eps)
local q = heads_of(x:matmul(weight "self_attn.q_proj":t()), facts.heads)
local k = of_all_ranks(heads_of(x:matmul(weight "self_attn.k_proj":t()), facts.kv_heads))
k = k:repeat_interleave(facts.heads / facts.kv_heads, 1)
local scores = ops.einsum("qhd,khd->qhk", { q, k }) / facts.head_dim ^ 0.5
local later = moonring.arange(#ids):gt(positions:view(-1, 1, 1))
local maps = of_all_ranks(scores:masked_fill(later, -math.huge):softmax(-1))
if mesh:rank() == 0 then
  local names, shares = {}, maps:transpose(0, 1):contiguous() -- [heads, T, T]
  for i, id in ipairs(ids) do names[i] = tokenizer:decode({ id }) end
  moonring.safetensors.write(opt.out .. ".safetensors", { maps = shares })
  moonring.trainer.heat_map(opt.out .. ".png", { columns = names, rows = names,
    shares = shares[opt.head]:tolist(), x_label = "is looked at", y_label = "looks",
    title = ("block %d, head %d"):format(opt.layer, opt.head) })
end
