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
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer: moonring.Tokenizer) moonring.templates.settle: finds a template where none is named
---@return moonring.Tokenizer
function vocabulary.tokenizer(c, checkpoint, settle) end

--- The same, and the checkpoint made to fit it, before models are loaded from it: rows for every token where resize_vocab is true, and what is saved
--- beside them: the tokenizer's files, its eos, a chat template (moonring.jinja) where the model carries none. c.notes says what changed.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param settle? fun(c: moonring.Configuration, checkpoint: moonring.Checkpoint, tokenizer: moonring.Tokenizer) moonring.templates.settle: finds a template where none is named
---@return moonring.Tokenizer
function vocabulary.open(c, checkpoint, settle) end

--- Makes rows for tokens that data holds and the model has none for, and c.resize_vocab true; refuses such data where resize_vocab: false was given. c.notes says
--- so, and which of the template's other tokens have no row. Before models are loaded.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param tokenizer moonring.Tokenizer
---@param train moonring.Dataset | false what is learnt from; false: a stream, whose tokens show as it is used
---@param evals? { dataset: moonring.Dataset }[] what is evaluated
function vocabulary.fit(c, checkpoint, tokenizer, train, evals) end

return vocabulary
