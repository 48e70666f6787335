---@meta moonring.runtime

--- Runs an objective over steps and evaluations: counts first, then micro-batch by micro-batch. The one place that divides: the loss of a step is the sum over its
--- examples, on all ranks, by the objective's count of the whole step.
---@class moonring.runtime
local runtime = {}

---@class moonring.RuntimeOptions
---@field mesh moonring.Mesh
---@field model moonring.Model
---@field attention moonring.Attention
---@field objective moonring.Objective
---@field parameters? moonring.Parameters what gradients are summed of; the model's and the objective's where absent
---@field reference? moonring.Reference where the objective needs one
---@field group? integer examples of a survey's group: per_device_train_batch_size x dp
---@field noise? table { seed, neftune_alpha }: what is random in training acts where it is given
---@field router? moonring.Router where experts are to be balanced; with objectives at token level
---@field on_batch? fun(batch: moonring.Batch) sees each micro-batch before its forward
---@field states? moonring.States of the parameters; each rank holds all of them where absent
---@field tolerant? boolean a loss that is not finite is returned, not raised; false where absent

--- What runs the steps of one model under one objective. Errors: INVALID_ARGUMENT, with the nearest
--- name, for an option that there is not.
---@param given moonring.RuntimeOptions
---@return moonring.Runtime
function runtime.new(given) end

---@class moonring.Runtime
---@field mesh moonring.Mesh
---@field model moonring.Model
---@field attention moonring.Attention
---@field objective moonring.Objective
---@field parameters moonring.Parameters
---@field reference? moonring.Reference
---@field group? integer
---@field noise? table
---@field router? moonring.Router
---@field on_batch? fun(batch: moonring.Batch)
---@field states? moonring.States
---@field tolerant? boolean
---@field before? string the objective's state before the last step, of a tolerant runtime
local Runtime = {}

--- The micro-batches to run of a list: with empty ones at its end where ranks that share weights have more, and then collective over all ranks.
---@param micros moonring.MicroBatch[]
---@return moonring.MicroBatch[]
function Runtime:micro_batches(micros) end

--- A micro-batch as the objective sees it.
---@param micro moonring.MicroBatch
---@param slot? integer as moonring.batch.new's
---@return moonring.Batch
function Runtime:batch(micro, slot) end

--- What the objective's loss takes: log-probs of tokens or documents, or what the objective itself makes of the hidden states. Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor values
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
function Runtime:values(batch, noise) end

--- The objective's sum and metrics of one micro-batch. Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
function Runtime:loss(batch, noise, reference) end

--- Lets the objective see the log-probs of the whole step's documents, where it wants to, and returns what metrics it gives. Collective.
---@param step moonring.Step
---@param group integer
---@param reference moonring.Reference
---@param alone? boolean the step is this dp rank's own
---@return table<string, number[]>
function Runtime:survey(step, group, reference, alone) end

--- Puts the gradient of the whole step's loss into the parameters, summed over all ranks, on top of what is there. Collective over all ranks.
--- A step with nothing to learn (it has no example, its count is 0, or its documents predict nothing
--- that log-probs could be of) is not run: no gradient, no loss, and why as the third result. A rank
--- whose loss or values have no graph (it had nothing to add, and made them of numbers) takes part
--- with a gradient of zero. Errors:
--- INVALID_ARGUMENT where that is so on every rank, for the whole step; DATA_LOSS, naming ranks and
--- examples, where ranks that share sequences have other ones; ABORTED, naming step, examples and
--- layer, where the loss is not finite, but in a
--- tolerant runtime; before any update.
---@param step moonring.Step
---@param k integer the step's number, for messages and noise
---@return number? loss of the whole step; nil where it has nothing to learn
---@return table<string, number[]>? metrics their totals: name -> { sum, count }
---@return string? fault in a tolerant runtime: what is wrong with the loss; of a step that is not run: why
function Runtime:backward(step, k) end

--- Gives the objective back its state before the last step of a tolerant runtime.
function Runtime:take_back() end

--- Evaluates on a data set, in its order: the same numbers for any sp, dp and packing. loss: the mean of the batches' means, by rows, as the Hugging Face Trainer has
--- it; loss_per_token, at token level: the sum over all predictions by their number; and the metrics' means. Collective over all ranks.
---@param dataset moonring.Dataset
---@param how table { batch: rows, micro_batch_tokens, reference: of this data, accuracy: of tokens }
---@return table<string, number>
function Runtime:evaluate(dataset, how) end

return runtime
