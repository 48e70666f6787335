---@meta moonring.journal

--- What a training run tells: the log and the plot in output_dir, progress on the terminal, a sample answer before and after. Rank 0
--- writes; the others take part in what all must.
---@class moonring.journal
local journal = {}

--- Opens the log in output_dir and says what is about to be trained, on rank 0.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@param counts moonring.Counts
---@param dataset moonring.Dataset
---@param attention moonring.Attention
---@return moonring.Journal
function journal.open(config, mesh, counts, dataset, attention) end

--- A function that prints the model's likeliest answer to sample_prompt, with its argument ("before") in front; one that does nothing
--- where there is no sample_prompt, and on the ranks above 0.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@param model moonring.Model
---@param tokenizer moonring.Tokenizer
---@return fun(when: string, now: moonring.Model?) of another model where one is given
function journal.sampler(config, mesh, model, tokenizer) end

---@class moonring.Journal
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field steps integer steps made
---@field tokens integer seen so far
---@field total_loss number the sum of the steps' losses
---@field since number[] the losses since the last line of the log
---@field log? moonring.Log on rank 0
---@field progress? moonring.Progress on rank 0
---@field metrics table<string, number[]> totals since the last line of the log
---@field epoch? number epochs done
---@field stream? moonring.Stream on rank 0, with streaming: its report comes at the end
---@field chosen table<string, true> the strategies that "auto" chose so far
local Journal = {}

--- Takes what attention says of a micro-batch, and tells of each strategy that "auto" chooses, once.
---@param said string
function Journal:attention(said) end

---@class moonring.StepReport
---@field step integer steps made, from 1
---@field loss number the whole step's
---@field lr number
---@field grad_norm number before clipping
---@field tokens integer of the step
---@field epoch number epochs done
---@field metrics? table<string, number[]> the whole step's: name -> { sum, count }

--- Takes a step's numbers, and logs where it is time to. Collective over all ranks where it logs.
---@param record moonring.StepReport
function Journal:step(record) end

--- A line on the terminal, from rank 0.
---@param text string
function Journal:say(text) end

--- Takes what an evaluation gave, logs it, and returns it under the "eval_" names.
---@param result table<string, number>
---@param rows integer
---@param seconds number
---@param of? string the name of the data set, of several: "eval_NAME_" stands before its numbers
---@return table<string, number>
function Journal:evaluation(result, rows, seconds, of) end

--- Notes the best checkpoint.
---@param best table { metric, step, folder }
function Journal:best(best) end

--- The numbers of the evaluation after the training: eval_results.json.
---@param named table<string, number>
function Journal:results(named) end

--- The end of the training: the result files and, with plot_loss, the plots.
function Journal:close() end

return journal
