--- Custom masks: which tokens of a micro-batch may attend to which beyond the causal rule, given
-- per document. Every strategy supports them on any number of ranks (attention/kernels/mask.h has
-- the rule).
local attention = require "moonring.native.attention"
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"

---@class moonring.masks
local masks = {}

--- Says that a document continues the first `length` tokens of another document, its parent, and
--- may attend to them.
---@class moonring.ParentPrefix
---@field document integer index in the list of documents, from 1
---@field length integer

--- The mask of one layer. An absent field leaves the rule as it is without a mask.
---@class moonring.LayerMask
--- `prefix` has one number n per document: all tokens of the document may attend to its first n
--- tokens, and these attend to each other in both directions.
---@field prefix? integer[]
---@field parents? table<integer, moonring.ParentPrefix> by document, from 1
---@field window? integer tokens that a query may attend to; overrides the model's; 0: no window

--- The masks of all layers.
---@class moonring.MaskTable: moonring.LayerMask
--- `layers` gives layers different masks. Layer l, from 0, uses layers[l % #layers + 1], whose
--- fields override the fields above; a field that is false removes the one above. An entry that is
--- false makes the layer causal, with the model's own window.
---@field layers? (moonring.LayerMask | false)[]

--- A function that computes a mask from the whole stream, before it is cut over ranks. If it
--- returns nil, there is no mask.
---@alias moonring.MaskFunction fun(batch: moonring.Batch): moonring.MaskTable?

local LAYER = { prefix = "table?", parents = "table?", window = "number?" }
local WHOLE = { prefix = "table?", parents = "table?", window = "number?", layers = "table?" }
local PARENT = { document = "number", length = "number" }

local function native(lengths, given)
  local wanted = { lengths = lengths, prefix = given.prefix, window = given.window }
  if given.parents then
    wanted.parents, wanted.parent_tokens = {}, {}
    for d = 1, #lengths do wanted.parents[d], wanted.parent_tokens[d] = 0, 0 end
    for d, parent in pairs(given.parents) do
      if not lengths[d] then
        options.refuse("mask.parents", "document ", tostring(d), ": expected 1 to ",
          tostring(#lengths))
      end
      options.check("mask.parents", parent, PARENT)
      wanted.parents[d], wanted.parent_tokens[d] = parent.document, parent.length
    end
  end
  return attention.mask(wanted)
end

-- Merges the mask of one layer with the mask of all layers.
local function over(given, layer)
  options.check("mask.layers", layer, LAYER)
  local whole = { prefix = given.prefix, parents = given.parents, window = given.window }
  for name, value in pairs(layer) do whole[name] = value or nil end
  return whole
end

--- Converts a mask table to masks for Attention:cut. Errors: INVALID_ARGUMENT for unknown fields,
--- and for values that do not fit the documents.
---@param lengths integer[] tokens of each document
---@param given moonring.MaskTable
---@return moonring.Mask[]
function masks.of(lengths, given)
  options.check("mask", given, WHOLE)
  if not given.layers then return { native(lengths, given) } end
  if #given.layers == 0 then options.refuse("mask", "layers: expected one at least") end
  local made, known = {}, {} -- layers with the same table share a mask and its tiles
  for l, layer in ipairs(given.layers) do
    known[layer] = known[layer] or native(lengths, layer and over(given, layer) or {})
    made[l] = known[layer]
  end
  return made
end

--- Implements Batch:mask.
---@param batch moonring.Batch
---@param mask? moonring.MaskTable | moonring.MaskFunction
---@return moonring.Batch
function masks.want(batch, mask)
  if rawget(batch, "plan") then
    options.refuse("mask", "the batch is cut already: it must come before ids, positions, ",
      "targets, plan, layout and hidden")
  end
  batch.wanted_mask = mask
  return batch
end

-- Evaluates an objective's mask function, once per micro-batch. The function may use only the whole
-- stream, because this rank's tokens are not cut from it yet.
local function wanted_by(batch)
  local given = batch.wanted_mask
  if type(given) ~= "function" then return given end
  batch.wanted_mask = function()
    options.refuse("mask", "ids, positions, targets, plan and layout are cut by what it returns: ",
      "use sequence(), labels() and lengths()")
  end
  local made = given(batch)
  batch.wanted_mask = given
  return made
end

--- Cuts this rank's shard from a batch's stream with Attention:cut, under the mask that Batch:mask
--- set. Collective over the sp group if there is a mask. Errors: those of masks.of; DATA_LOSS if
--- the ranks that share the sequence computed different masks.
---@param batch moonring.Batch
---@return moonring.Tensor ids
---@return moonring.Tensor positions
---@return moonring.Tensor targets
---@return moonring.AttentionPlan plan
---@return moonring.Layout layout
function masks.cut(batch)
  local sequence = batch:sequence()
  local given = batch.wanted_mask and sequence:tokens() > 0 and wanted_by(batch)
  if given and sequence:parents() then
    options.refuse("mask", "the batch has shared prefixes (share_prefixes), which make its mask: ",
      "there is none besides")
  end
  if not given then return batch.attention:cut(sequence, nil, batch.shifted) end
  if batch.shifted then
    options.refuse("mask", "shift_attn: its groups are the attention mask, and no other ",
      "one may be given")
  end
  local made, sum = masks.of(sequence:lengths(), given), 0
  for _, mask in ipairs(made) do sum = mask:checksum(sum) end
  if not batch.mesh:same_sp(sum) then
    errors.raise("DATA_LOSS", "mask: the ranks that share a sequence have different ones: it must ",
      "come of the documents alone")
  end
  return batch.attention:cut(sequence, made)
end

return masks
