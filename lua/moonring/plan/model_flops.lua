--- Counts the floating-point operations of a training step, and has the peak rates of GPUs. MFU
-- ("model FLOPs utilization", PaLM, appendix B) is computed from both as in torchtitan.
--
--   operations = 6 N T + 12 L h d sum of T_i^2
--
-- T is the number of tokens, in documents of T_i tokens. N: parameters of the matrices and norms
-- that a token uses. The embedding is not included; of the experts, only those that a token is sent
-- to; the head, tied or not, is included if its logits are computed. L: layers of softmax attention
-- with h heads of size d (the mean, if values and keys have different sizes). Of linear attention
-- and convolutions only the linear maps are counted.
--
-- Attention is counted as if each token attended to its whole document, as in torchtitan; `causal`
-- halves this. Windows are not subtracted; shift_attn has a quarter of the pairs. Recomputation and
-- the forwards of a reference model and of a survey are not counted.
--
-- If only some weights are trained, two terms are smaller: a frozen weight has no gradient, and
-- layers below the lowest trainable weight have no backward:
--
--   operations per token = 2 N + 2 N_passed + 2 N_learning + 6 A
--   operations per pair  = (4 L + 8 L_passed) h d
--
-- N_passed: parameters of the layers that run backward, and of the head. N_learning: those of them
-- that are trained. A: elements of an adapter's A and B (fully trained modules next to an adapter
-- count as frozen). Full fine-tuning gives 6 N and 12 L h d again; LoRA gives 4 N + 6 A.
local learning = require "moonring.plan.learning"
local model_shape = require "moonring.plan.model_shape"
local stages = require "moonring.choices.stages"

---@class moonring.model_flops
local model_flops = {}

-- Peak TFLOP/s of a GPU's tensor cores in bf16 with fp32 sums, without sparsity, from NVIDIA's data
-- sheets (H100: 989 for SXM, 756 for PCIe, 835 for NVL; Ada and Blackwell RTX: the architectures'
-- white papers). Matched by words of the device's name; the first matching row counts.
local PEAKS = {
  { { "H100", "PCIe" }, 756 }, { { "H100", "NVL" }, 835 }, { { "H200", "NVL" }, 835 },
  { { "H100" }, 989 }, { { "H200" }, 989 }, { { "H800" }, 989 }, { { "GH200" }, 989 },
  { { "H20" }, 148 }, { { "B200" }, 2250 }, { { "GB200" }, 2500 },
  { { "A100" }, 312 }, { { "A800" }, 312 }, { { "A40" }, 149.7 }, { { "A30" }, 165 },
  { { "A10" }, 125 }, { { "L40S" }, 362 }, { { "L40" }, 181 }, { { "L4" }, 121 },
  { { "4090" }, 165.2 }, { { "3090" }, 71 }, { { "5090" }, 209.5 },
}

---@class moonring.ModelFlops
---@field token number operations per token
---@field pair number operations per pair of tokens of one document

-- Counts the parameters that one token uses: of the blocks with the final norm, and of the head.
local function met(checkpoint, m, stage)
  local blocks, head = 0, stage.head == "logits" and m.vocab * m.hidden or 0
  for _, part in ipairs(checkpoint:parts()) do
    if part.name ~= "embedding" and part.name ~= "head" then blocks = blocks + part.active end
  end
  return blocks, head
end

--- Counts the operations of a forward and a backward, per token and per pair of tokens.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.ModelFlops
function model_flops.of(c, checkpoint)
  local m = model_shape.of(checkpoint)
  local blocks, head = met(checkpoint, m, stages.of(c))
  -- With vocab = 0, so that `adapter` counts only the adapter's maps.
  local maps_alone = setmetatable({ vocab = 0 }, { __index = m })
  local learns, adapter, depth = learning.of(c, checkpoint, maps_alone)
  local head_learns = (m.tied and learns.embedding or learns.head) > 0
  local learning_now = blocks * learns.blocks / m.blocks + (head_learns and head or 0)
  local passed = blocks * depth / m.layers + head
  local share = c.shift_attn and 1 / 4 or 1
  return { token = 2 * (blocks + head) + 2 * passed + 2 * learning_now + 6 * adapter,
    pair = share * (4 * m.layers + 8 * depth) * m.attending / m.layers * m.heads
      * (m.head_dim + (m.value_dim or m.head_dim)) / 2 }
end

--- The total operations for documents: as torchtitan counts them, and with attention halved for the
--- causal mask.
---@param flops moonring.ModelFlops
---@param tokens number
---@param squares number the sum of the documents' T^2
---@return number operations
---@return number causal
function model_flops.total(flops, tokens, squares)
  local linear, attention = flops.token * tokens, flops.pair * squares
  return linear + attention, linear + attention / 2
end

--- What sharing prefixes saves (share_prefixes). n documents of L tokens have the same prompt of P
--- tokens. They share p = P - 1 of them, and each has b = L - p of its own:
---
---   tokens             n L       ->  p + n b
---   pairs of tokens    n L^2/2   ->  p^2/2 + n (p b + b^2/2)
---
---@param flops moonring.ModelFlops
---@param documents integer per example
---@param length integer tokens of each document
---@param prompt integer tokens of the common prompt
---@return integer tokens of an example
---@return number part fraction of the operations that remains
function model_flops.shared(flops, documents, length, prompt)
  local p = math.max(prompt - 1, 0)
  local tokens = p + documents * (length - p)
  local _, shared = model_flops.total(flops, tokens,
    p * p + documents * (length * length - p * p))
  local _, apart = model_flops.total(flops, documents * length, documents * length * length)
  return tokens, shared / apart
end

--- The peak bf16 rate of a device by its name, in operations per second; nil if unknown. This rate
--- is used for runs in any dtype.
---@param name? string
---@return number?
function model_flops.peak(name)
  if name and (name:find "Laptop" or name:find "[345]090 D") then return nil end -- slower
  for _, row in ipairs(PEAKS) do
    local fits = name ~= nil
    for _, word in ipairs(row[1]) do
      fits = fits and name:find("%f[%w]" .. word .. "%f[^%w]") ~= nil
    end
    if fits then return row[2] * 1e12 end
  end
end

return model_flops
