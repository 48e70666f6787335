---@meta moonring.vocabulary

--- The vocabulary of a run: its tokenizer, with the tokens that the configuration and the template add, and room for them in the model.
---@class moonring.vocabulary
local vocabulary = {}

--- Whether add_tokens, add_special_tokens, new_special_tokens_config or resize_vocab asks for another vocabulary than the model's own. The template may, too.
---@param c moonring.Configuration
---@return boolean?
function vocabulary.asked(c) end

--- The tokenizer of a run: the model's own, then add_tokens, add_special_tokens, and what the template, where there is one, ends answers with. New tokens of the two keys
--- make c.resize_vocab true; c.notes says so.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Tokenizer
function vocabulary.tokenizer(c, checkpoint) end

--- The same, and the checkpoint made to fit it, before models are loaded from it: rows for every token where resize_vocab is true, and what is saved
--- beside them. c.notes says what changed, and which of the template's tokens have no row.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Tokenizer
function vocabulary.open(c, checkpoint) end

--- Refuses data sets with tokens that the model has no rows for.
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@param train moonring.Dataset | false what is learnt from; false: a stream, which shows what is in it as it is used
---@param evals? { dataset: moonring.Dataset }[] what is evaluated
function vocabulary.check(checkpoint, tokenizer, train, evals) end

return vocabulary
