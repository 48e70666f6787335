--- Frozen base models with quantized matrices (QLoRA): converts quantization_bit and related keys
-- to options of model.load.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local config = require "moonring.config"
local compute = require "moonring.choices.compute"

---@class moonring.packing
local packing = {}

local function code_of(c, key)
  local bits = c[key]
  if bits == 8 then return "int8" end
  if bits ~= 4 then config.fail(key, ": expected 4 or 8, got ", bits) end
  return c.quantization_type .. (c.double_quantization and " double" or "")
end

--- The format in which the model's matrices are quantized, for model.load; nil: not quantized.
---@param c moonring.Configuration
---@return string?
function packing.of(c)
  if c.quantization_method == "gguf" then
    if c.quantization_bit then
      config.fail("quantization_bit: with quantization_method: gguf weights stay in the blocks "
        .. "that the file has; expected none, got ", c.quantization_bit)
    end
    return "file"
  end
  return c.quantization_bit and code_of(c, "quantization_bit") or nil
end

--- The format in which the matrices of ref_model are quantized; nil: not quantized.
---@param c moonring.Configuration
---@return string?
function packing.of_reference(c)
  return c.ref_model_quantization_bit and code_of(c, "ref_model_quantization_bit") or nil
end

--- Adds to the options of model.load those that quantize a frozen base in the format `code`. If
--- `code` is nil, adds none.
---@param c moonring.Configuration
---@param options moonring.LoadOptions
---@param code? string
---@return moonring.LoadOptions options
function packing.apply(c, options, code)
  if not code then return options end
  options.pack, options.frozen = code, true
  -- Weights are cast to the dtype of matmuls before they are quantized, as in LLaMA-Factory.
  options.pack_dtype = packing.dtype(c)
  return options
end

--- The dtype of weights before quantization.
---@param c moonring.Configuration
---@return "bf16" | "fp16" | "fp32"
function packing.dtype(c) return compute.precision(c):match "[bf][fp]16$" or "fp32" end

--- Refuses keys that are incompatible with a quantized base. Adds a note if the quantization costs
--- memory.
---@param c moonring.Configuration
function packing.check(c)
  local code, reference = packing.of(c), packing.of_reference(c)
  if reference and not c.ref_model then
    config.fail "ref_model_quantization_bit: expected a ref_model beside it"
  end
  if not code and not reference then return end
  local key = c.quantization_bit and "quantization_bit"
    or code and "quantization_method" or "ref_model_quantization_bit"
  local function refuse(...) config.fail(key, ": ", ...) end
  if c.expert_parallel_size > 1 then
    refuse "packed experts cannot be sharded; expected expert_parallel_size: 1"
  end
  if c.offload_weights then
    refuse "packed weights cannot be offloaded; expected offload_weights: false"
  end
  if c.recompute == "auto" then
    refuse("recompute: auto does not count the unpacked weights that layers would keep; expected "
      .. "block, selective or none")
  end
  if not code then return end
  if not adapter_kinds.has(c) then
    refuse("packed weights cannot be trained; expected finetuning_type: lora or oft, got ",
      c.finetuning_type)
  end
  if c.pissa_init then
    config.fail("pissa_init: the largest singular values are those of weights before they are "
      .. "packed; leave ", key, " out")
  end
  if c.resize_vocab then
    refuse "a packed model's vocabulary does not grow; leave resize_vocab out"
  end
  if c.adapter_name_or_path and c.create_new_adapter then
    refuse "nothing is merged into packed weights; leave create_new_adapter out"
  end
  packing.adapter(c)
  if c.quantization_device_map == "auto" then
    config.fail "quantization_device_map: auto spreads a model for inference, not for training"
  end
  if compute.recompute(c) == "none" then
    c.notes[#c.notes + 1] = key .. ": without recompute each forward keeps the weights that it "
      .. "unpacked until its backward"
  end
end

--- The path of the adapter that is used on a quantized base; nil: none.
---@param c moonring.Configuration
---@return string?
function packing.adapter(c)
  local paths = c.adapter_name_or_path or {}
  if #paths > 1 then
    config.fail("adapter_name_or_path: nothing is merged into packed weights; expected one "
      .. "adapter, got ", #paths)
  end
  return paths[1]
end

return packing
