---@meta moonring.model_card

--- README.md of a trained model.
---@class moonring.model_card
local card = {}

---@class moonring.CardEvaluation
---@field loss? number of the training, as last logged
---@field epoch number
---@field step integer
---@field numbers table<string, number> by their "eval_" names

---@class moonring.CardRun
---@field dp integer
---@field examples_per_step integer
---@field report string what the data set says of itself
---@field evaluations moonring.CardEvaluation[] while it trained
---@field last? table<string, number> the numbers of the last evaluation

--- The model card, with the metadata in front that model hubs read.
---@param c moonring.Configuration
---@param run moonring.CardRun
---@return string
function card.text(c, run) end

return card
