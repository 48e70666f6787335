--- What makes the CPU's fp32 products of matrices, MKL or oneDNN: by cpu_products, or by what is
-- measured. A choice is a string here; what it says, and why it must stay: product_choice.h in
-- comm/products.
local compute = require "moonring.choices.compute"
local counts = require "moonring.choices.counts"
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"

---@class moonring.products
local products = {}

-- Elements of a matrix from which on there is enough to win. Below, a model's step is over before
-- a choice pays.
local WORTH_MEASURING = 2 ^ 18

-- The run's own sizes.
local function shapes(c, checkpoint)
  local facts = checkpoint:facts()
  local width = facts.experts > 0 and facts.expert_intermediate_size or facts.intermediate_size
  local kv = facts.kv_heads * facts.head_dim
  return { outputs = width, inputs = facts.hidden_size,
    rows = math.ceil(counts.micro_batch_tokens(c) / c.sequence_parallel_size),
    narrow = c.finetuning_type == "lora" and c.lora_rank or kv < 256 and kv or 64 }
end

-- Measured by rank 0 and taken by all: ranks that chose for themselves could differ. Nil where it
-- does not pay.
local function measured(c, mesh, checkpoint)
  local sizes = shapes(c, checkpoint)
  if sizes.outputs * sizes.inputs < WORTH_MEASURING then return nil end
  return mesh:gather(mesh:rank() == 0 and model.fastest_products(sizes) or "")[1]
end

-- MKL in place of a checkpoint's choice that the processor of any rank cannot make.
local function possible(found, mesh)
  local mine = found == nil or pcall(model.checked_products, found)
  if mesh:max(mine and 0 or 1) == 0 then return found end
  return "mkl", (" (the checkpoint has %s, which a processor here cannot make: numbers differ in "
    .. "their last bits)"):format(found)
end

--- Settles `cpu_products: auto`: what the checkpoint says that the run goes on from (MKL where it
--- says nothing, or what these processors cannot make), else what is measured. Those of fp16 are
--- made in fp32; of a run whose matmuls are in another dtype there is nothing to settle. Collective
--- over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param checkpoint moonring.Checkpoint the model's
---@param resumed? moonring.Resumed
---@return string? line for the log
function products.settle(c, mesh, checkpoint, resumed)
  local precision = compute.precision(c)
  if compute.device(c) ~= "cpu" or (precision ~= "fp32" and precision ~= "fp16") then
    return nil
  end
  if c.cpu_products == "auto" then
    local wanted = resumed and resumed.parts.cpu_products
    if not resumed then wanted = measured(c, mesh, checkpoint) end
    local found, why = possible(wanted, mesh)
    c.cpu_products = found or "mkl"
    if not found then return nil end
    return "cpu_products: " .. c.cpu_products .. (why or "")
  end
  return "cpu_products: " .. c.cpu_products
end

--- What a checkpoint keeps of it, for `settle`.
---@param c moonring.Configuration
---@return moonring.Part
function products.part(c)
  return { state = function() return c.cpu_products end, load_state = function() end }
end

--- Refuses what names no choice, before a rank is started.
---@param c moonring.Configuration
function products.check(c)
  if c.cpu_products == "auto" then return end
  local ok, why = pcall(model.checked_products, c.cpu_products)
  if not ok then errors.fail("cpu_products: ", errors.words(why)) end
end

return products
