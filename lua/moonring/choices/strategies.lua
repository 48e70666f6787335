--- Creates the attention of a run, which may be spread over the ranks of an sp group, from the keys
-- of the configuration. attention/strategy/strategies.cc has the table of strategies.
local attention = require "moonring.native.attention"
local compute = require "moonring.choices.compute"
local batching = require "moonring.choices.batching"
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local mixing = require "moonring.native.mixing"

---@class moonring.strategies
local strategies = {}

-- Options for attention, from the configuration. If the policy is given, the numbers of its heads
-- determine the defaults.
local function options_of(c, policy)
  local heads, kv_heads, head_dim, value_dim
  if policy then heads, kv_heads, head_dim, value_dim = policy:heads() end
  -- Ranks of an sp group per machine, if the group spans several machines evenly; otherwise 0.
  local ranks, sp = machine.local_ranks() or 0, c.sequence_parallel_size
  return {
    strategy = c.sequence_parallel_mode,
    ulysses_degree = c.sequence_parallel_ulysses_degree,
    ring_degree = c.sequence_parallel_ring_degree,
    placement = c.placement,
    double_ring_window = c.double_ring_window, kernels = c.attention_kernels,
    ranks_per_machine = ranks < sp and ranks > 0 and sp % ranks == 0 and ranks or 0,
    heads = heads, kv_heads = kv_heads, head_dim = head_dim, value_dim = value_dim,
    dtype = policy and policy:matmul_dtype(),
  }
end

--- Creates the attention of a run, by sequence_parallel_mode and the keys of its axes.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param policy? moonring.Model its heads determine defaults; required for "auto"
---@param kept? string GPU kernels recorded in a checkpoint, used for attention_kernels: auto
---@return moonring.Attention
function strategies.open(c, mesh, policy, kept)
  local options = options_of(c, policy)
  options.mesh, options.device, options.longest = mesh, compute.device(c), batching.longest(c)
  options.layers = policy and policy:whole_attention_layers() or 1
  options.mixing = c.linear_attention_mode
  if kept and c.attention_kernels == "auto" then options.kernels = kept end
  return attention.create(options)
end

--- The component of the run that stores the choice of GPU kernels in checkpoints, so that a resumed
--- run uses the same kernels. nil if there is no choice.
---@param of moonring.Attention
---@return moonring.Part?
function strategies.part(of)
  if not of:kernels() then return nil end
  return { state = function() return of:kernels() end, load_state = function() end }
end

--- A line for the log if linear_attention_mode is set without effect.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
---@return string?
function strategies.idle_mixing(c, facts)
  if c.given.linear_attention_mode == nil then return nil end
  local why = facts.delta_layers == 0 and "the model has no layers of linear attention"
    or c.sequence_parallel_size == 1 and "sequence_parallel_size is 1"
  return why and ("linear_attention_mode: %s does nothing: %s"):format(c.linear_attention_mode,
    why) or nil
end

--- Describes the choice that linear_attention_mode: auto makes for a micro-batch: the mode, with
--- the estimated time of each mode as text; and the mode alone. nil if there is nothing to choose.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
---@param model moonring.Model
---@param layout moonring.Layout
---@return string? words
---@return string? chosen
function strategies.describe_mixing(c, facts, model, layout)
  if c.linear_attention_mode ~= "auto" or facts.delta_layers == 0 or layout:ranks() == 1 then
    return nil
  end
  local options = { layout = layout, key_heads = facts.key_heads, value_heads = facts.value_heads,
    key_dim = facts.key_dim, value_dim = facts.value_dim, taps = facts.delta_taps,
    dtype = model:matmul_dtype(), device = compute.device(c) }
  local chosen, each = mixing.cost(options).mode, {}
  for _, name in ipairs(mixing.names()) do
    options.mode = name
    if name ~= "auto" then
      each[#each + 1] = ("%s %.3g ms"):format(name, 1e3 * mixing.cost(options).seconds)
    end
  end
  return ("%s (a layer's estimate: %s)"):format(chosen, table.concat(each, ", ")), chosen
end

--- Estimates the cost of one layer's attention for a micro-batch, for each rank and kind of work;
--- nil if the strategy has no estimate (Attention:cost).
---@param c moonring.Configuration
---@param policy moonring.Model
---@param of moonring.Attention
---@param sequence moonring.Sequence
---@param shifted? boolean
---@return moonring.Cost?
function strategies.cost(c, policy, of, sequence, shifted)
  local o = options_of(c, policy)
  return of:cost(sequence, { heads = o.heads, kv_heads = o.kv_heads, head_dim = o.head_dim,
    value_dim = o.value_dim, dtype = o.dtype, ranks_per_machine = o.ranks_per_machine,
    shifted = shifted })
end

--- Refuses shift_attn for a model that has other layers than softmax attention over whole
--- documents.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
function strategies.check_shifted(c, facts)
  if not c.shift_attn then return end
  local why = facts.key_value_rank > 0 and "latent attention"
    or facts.window > 0 and ("layers with a window of %d tokens"):format(facts.window)
    or facts.attention_layers < facts.layers - facts.unmixed_layers
      and "layers that are not softmax attention"
  if why then
    errors.fail("shift_attn: expected a model whose layers all are softmax attention over whole ",
      "documents, ", facts.architecture, " has ", why)
  end
end

--- Refuses invalid degrees, windows and kernels before ranks are started: degrees must divide
--- sequence_parallel_size.
---@param c moonring.Configuration
function strategies.check(c)
  if c.shift_attn and c.neat_packing then
    errors.fail("shift_attn: its groups are of a row, and neat_packing makes rows of several ",
      "documents: expected one of the two")
  end
  local options = options_of(c)
  options.ranks = c.sequence_parallel_size
  options.kernels = "auto"
  local ok, why = pcall(attention.resolve, options)
  if not ok then
    errors.fail("sequence_parallel_mode: ", c.sequence_parallel_mode, ": ", errors.words(why))
  end
  options.kernels = c.attention_kernels
  errors.of_key("attention_kernels", attention.resolve, options)
end

return strategies
