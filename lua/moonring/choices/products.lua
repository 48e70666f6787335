--- Chooses the library for fp32 matrix products on a CPU, MKL or oneDNN: by the key cpu_products,
-- or by measuring. A string represents the choice. kernels/products/product_choice.h describes the
-- string, and why a resumed run must keep the choice.
local compute = require "moonring.choices.compute"
local batching = require "moonring.choices.batching"
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"

---@class moonring.products
local products = {}

-- The least number of elements in a model's largest matrix for which measuring pays: steps of a
-- smaller model are too short.
local WORTH_MEASURING = 2 ^ 18

-- The sizes of the run's matrix products.
local function shapes(c, checkpoint)
  local facts = checkpoint:facts()
  local width = facts.experts > 0 and facts.expert_intermediate_size or facts.intermediate_size
  local kv = facts.kv_heads * facts.head_dim
  return { outputs = width, inputs = facts.hidden_size,
    rows = math.ceil(batching.micro_batch_tokens(c) / c.sequence_parallel_size),
    narrow = c.finetuning_type == "lora" and c.lora_rank or kv < 256 and kv or 64 }
end

-- The fastest choice, measured on rank 0 and sent to all ranks, so that they agree; nil if the
-- model is too small to measure.
local function measured(c, mesh, checkpoint)
  local sizes = shapes(c, checkpoint)
  if sizes.outputs * sizes.inputs < WORTH_MEASURING then return nil end
  return mesh:gather(mesh:rank() == 0 and model.fastest_products(sizes) or "")[1]
end

-- Returns the choice recorded in the checkpoint; MKL if it is missing, or if the CPU of any rank
-- does not support it.
local function possible(found, mesh)
  local mine = found == nil or pcall(model.checked_products, found)
  if mesh:max(mine and 0 or 1) == 0 then return found end
  return "mkl", (" (the checkpoint has %s, which a CPU of this run does not support: numbers "
    .. "differ in their last bits)"):format(found)
end

--- Resolves `cpu_products: auto`, which applies to matrix products on a CPU in fp32, the dtype that
--- fp16 runs use there, too. A resumed run takes its checkpoint's choice (MKL if that is absent or
--- not supported); a new run measures. Collective over all ranks.
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

--- The component of the run that stores the choice in checkpoints.
---@param c moonring.Configuration
---@return moonring.Part
function products.part(c)
  return { state = function() return c.cpu_products end, load_state = function() end }
end

--- Refuses an invalid cpu_products before ranks are started.
---@param c moonring.Configuration
function products.check(c)
  if c.cpu_products == "auto" then return end
  local ok, why = pcall(model.checked_products, c.cpu_products)
  if not ok then errors.fail("cpu_products: ", errors.words(why)) end
end

return products
