---@meta moonring.journal

--- What a training run tells: the log, the plots, training_args.yaml and the model card in output_dir, progress on the terminal, a sample answer before
--- and after. Rank 0 writes; the others take part in what all must.
---@class moonring.journal
local journal = {}

---@class moonring.JournalParts
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field checkpoint moonring.Checkpoint what is trained
---@field dataset moonring.Dataset what it learns from
---@field attention moonring.Attention
---@field memory? moonring.MemoryReport
---@field resumed? table what state() gave, of a run that goes on

--- Opens the log in output_dir, writes training_args.yaml and says what is about to be trained, on rank 0.
---@param config moonring.Configuration
---@param parts moonring.JournalParts
---@return moonring.Journal
function journal.open(config, parts) end

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
---@field skipped integer steps left out so far
---@field tokens integer seen so far
---@field total_loss number the sum of the steps' losses
---@field since number[] the losses since the last line of the log
---@field log? moonring.Log on rank 0
---@field progress? moonring.Progress on rank 0
---@field metrics table<string, number[]> totals since the last line of the log
---@field epoch? number epochs done
---@field chosen table<string, true> the strategies that "auto" chose so far
---@field dataset moonring.Dataset | moonring.Stream what is learnt from
---@field evaluated? integer | "end" when the last evaluation was
---@field evaluations moonring.CardEvaluation[] while it trained
---@field last_loss? number of the last line of the log
---@field last_evaluation? table<string, number> its numbers, by their "eval_" names
---@field closed? boolean the training is over
---@field warned? boolean of a stream: that cutoff_len leaves next to nothing is told of
---@field memory? moonring.MemoryReport where memory_report asks for it
local Journal = {}

--- Takes what attention says of a micro-batch, and tells of each strategy that "auto" chooses, once.
---@param said string
function Journal:attention(said) end

---@class moonring.StepReport
---@field step integer steps made, from 1
---@field loss? number the whole step's; absent, as grad_norm and metrics, where it was left out
---@field skipped? integer steps left out so far
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

--- Takes what an evaluation gave, logs it (one after the training is only told), and returns it under the "eval_" names.
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

--- trainer_state.json as of now in the folder of a checkpoint.
---@param folder string
function Journal:trainer_state(folder) end

--- What of the journal a checkpoint holds: sums since the last line, the evaluations so far and the like.
---@return table
function Journal:state() end

--- Writes the model card, README.md. After the last evaluation.
function Journal:card() end

--- The end of the training: the result files and, with plot_loss, the plots.
function Journal:close() end

return journal
