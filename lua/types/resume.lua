---@meta moonring.resume

--- Going on from a checkpoint: which one, whether the run is the one that was interrupted, and what it was in the middle of.
---@class moonring.resume
local resume = {}

--- What a checkpoint remembers of a configuration: the value of each key that settles a run's numbers.
---@param c moonring.Configuration
---@return table<string, any>
function resume.remembered(c) end

--- The checkpoint that resume_from_checkpoint asks for; nil where the run begins anew. Errors: INVALID_ARGUMENT where there is none, where the one that is named is broken, and where the
--- configuration is another run's, unless ignore_data_skip. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Resumed?
---@return string[]? notes where there is none: the broken ones that were passed over
function resume.find(c, mesh) end

--- Whether a launcher (moonring's own, or torchrun) has started the ranks again after a failure.
---@return boolean
function resume.restarted() end

--- The name of a run that begins, or of the one that `resumed` is of. Signs a folder of an unrelated run at once.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param resumed? moonring.Resumed
---@return string? run on rank 0
---@return table<string, integer>? before up to which step it shares checkpoints with earlier runs: for sign
function resume.begin(c, mesh, resumed) end

--- Writes training_args.yaml, which names the run that output_dir is of. By rank 0. Errors: what output_dir says.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param run? string what begin gave
---@param before? table<string, integer> up to which step it shares checkpoints with earlier runs; absent: with none
function resume.sign(c, mesh, run, before) end

---@class moonring.ResumeParts
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field steps moonring.Steps
---@field state table for training_state.json: run, step, config, data, examples_per_step, group, journal, updates, checkpoints, objective

--- Writes what a checkpoint has beside the model into its folder. Collective over all ranks.
---@param folder string
---@param mesh moonring.Mesh
---@param parts moonring.ResumeParts
---@return string[] names of the files that are this rank's alone
function resume.write(folder, mesh, parts) end

---@class moonring.Resumed
---@field folder string
---@field step integer
---@field run string the run's name
---@field newest? boolean it is the newest in output_dir, not one that a configuration names
---@field notes string[] lines for the log
---@field skips boolean the data goes on where it stood
---@field config table<string, any> what remembered() gave
---@field data? string the data set's digest
---@field examples_per_step integer
---@field group? integer examples over which the loss has a term of its own
---@field journal table
---@field updates table
---@field checkpoints table
---@field objective? string its state
local Resumed = {}

--- Refuses other examples than those that the run was in the middle of.
---@param digest? string of the data set; absent of a stream
---@param examples_per_step integer
---@param group? integer what moonring.run.group gave
function Resumed:check(digest, examples_per_step, group) end

--- Puts the saved weights and the optimizer's state in their places, whatever ranks sharded them. Collective over all ranks.
---@param states moonring.States
---@param optimizer moonring.Optimizer
function Resumed:load(states, optimizer) end

--- Takes the log of the run that it goes on from into an output_dir that has none. By rank 0.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
function Resumed:bring_log(c, mesh) end

--- Moves the data to where it stood.
---@param steps moonring.Steps
function Resumed:place(steps) end

return resume
