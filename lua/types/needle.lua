---@meta moonring.needle

--- The needle in a haystack: one fact among many sentences, and whether a model, read greedily, still knows it.
---@class moonring.needle
local needle = {}

--- The numbers of a list of texts (or of a comma list).
--- Errors: INVALID_ARGUMENT where one is no number from `least` to `most`.
---@param name string for the message
---@param list string[] | string
---@param least number
---@param most number
---@return number[]
function needle.numbers(name, list, least, most) end

---@class moonring.NeedleProblem
---@field ids integer[]
---@field labels integer[] unshifted; the answer's tokens alone are learnt
---@field answer integer[] its tokens
---@field number string the fact

--- A prompt of at most `length` tokens, answer included. The same for the same seed.
---@param tokenizer moonring.Tokenizer
---@param template moonring.Template
---@param length integer
---@param depth number the part of the text, 0 to 1, that stands before the fact
---@param seed integer
---@return moonring.NeedleProblem
function needle.problem(tokenizer, template, length, depth, seed) end

--- What the model says greedily at each token of the answer, given the right ones before it. Collective over the sp group.
---@param problem moonring.NeedleProblem
---@param model moonring.Model
---@param attention moonring.Attention
---@param mesh moonring.Mesh
---@return integer[]
function needle.read(problem, model, attention, mesh) end

--- The part of the answer that is right before the first wrong token.
---@param problem moonring.NeedleProblem
---@param said integer[]
---@return number
function needle.score(problem, said) end

return needle
