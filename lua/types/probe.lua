---@meta moonring.probe

--- The tokens that `moonring probe` is given, and what it reads off at some of them.
---@class moonring.probe
local probe = {}

---@class moonring.ProbeInput
---@field ids integer[]
---@field labels integer[] unshifted; -100: none
---@field lengths integer[] tokens of each document
---@field positions integer[] places of the stream to report, from 0

--- Reads { input_ids, labels, positions?, lengths? } from a JSON file and checks every number; one document where lengths are absent.
---@param path string
---@param vocab_size integer ids are below it
---@return moonring.ProbeInput
function probe.read(path, vocab_size) end

--- The input as a packed stream of its documents.
---@param input moonring.ProbeInput
---@return moonring.Sequence
function probe.sequence(input) end

--- The logits of ids 0 .. 7 and the logsumexp at places of the stream, wherever in the sp group they are. Collective over the sp group.
---@param model moonring.Model
---@param mesh moonring.Mesh
---@param layout moonring.Layout
---@param hidden moonring.Tensor [T_local, D]
---@param places integer[] from 0
---@return { logits: number[][], logsumexp: number[] }
function probe.places(model, mesh, layout, hidden, places) end

return probe
