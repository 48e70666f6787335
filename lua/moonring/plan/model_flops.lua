--- Floating-point operations of a training step, and the devices' peak rate, from which MFU ("model
-- FLOPs utilization", PaLM, appendix B) is computed as in torchtitan.
--
--   operations = 6 N T + 12 L h d sum of T_i^2
--
-- T tokens in documents of T_i; N parameters of the matrices and norms that a token uses (only the
-- experts that it is sent to; not the embedding; the head, tied or not, if its logits are
-- computed); L layers of softmax attention with h heads of d (if values and keys have different
-- sizes, their mean; of linear attention and convolutions only the linear maps are counted).
-- Attention is counted as if each token attended to its whole document, as in torchtitan; `causal`
-- halves it. Windows are not subtracted; shift_attn has a quarter of the pairs. Recomputation, a
-- reference model's forward, and a survey's are not counted.
--
-- If only some weights are trained: a frozen weight has no gradient, and a layer below all
-- trainable weights has no backward:
--
--   operations per token = 2 N + 2 N_passed + 2 N_learning + 6 A
--   operations per pair  = (4 L + 8 L_passed) h d
--
-- N_passed: parameters of the layers that run backward, and of the head; N_learning: of those that
-- are trained; A: numbers of an adapter's A and B (fully trained modules next to it count as
-- frozen). Full fine-tuning gives 6 N and 12 L h d again; LoRA 4 N + 6 A.
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

-- Parameters that one token uses: of the blocks with the last norm, and of the head.
local function met(checkpoint, m, stage)
  local blocks, head = 0, stage.head == "logits" and m.vocab * m.hidden or 0
  for _, part in ipairs(checkpoint:parts()) do
    if part.name ~= "embedding" and part.name ~= "head" then blocks = blocks + part.active end
  end
  return blocks, head
end

--- Operations of a forward and a backward of a configuration's model.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.ModelFlops
function model_flops.of(c, checkpoint)
  local m = model_shape.of(checkpoint)
  local blocks, head = met(checkpoint, m, stages.of(c))
  -- Without a vocabulary, so that only an adapter's maps are counted.
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

--- Operations for documents: as in torchtitan, and with attention halved.
---@param flops moonring.ModelFlops
---@param tokens number
---@param squares number the sum of the documents' T^2
---@return number operations
---@return number causal
function model_flops.total(flops, tokens, squares)
  local linear, attention = flops.token * tokens, flops.pair * squares
  return linear + attention, linear + attention / 2
end

--- The peak bf16 rate of a device by its name, in operations per second; nil if unknown. It is the
--- bf16 rate whatever dtype a run computes in.
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
