---@meta moonring.plan

--- What a configuration takes, what else it could take, and the smallest sequence parallel size that fits.
---@class moonring.plan
---@field all_strategies string[] those that a whole table has rows for
local plan = {}

---@class moonring.Measure
---@field changes table<string, any> facts, keys of a configuration under their own names
---@field words string the keys as "name: value, name: value"; "" where nothing changes
---@field short string the same in few words

---@class moonring.PlanRow
---@field sp integer
---@field strategy string
---@field measure moonring.Measure
---@field facts moonring.MemoryFacts
---@field found moonring.MemoryPrediction
---@field fits boolean
---@field longest number tokens of the longest example that fits alone; 0: none

--- Takes what a DeepSpeed file says into the configuration, as train does. Errors: INVALID_ARGUMENT for a zero_stage that is none.
---@param c moonring.Configuration
function plan.settle(c) end

--- Ways to take less memory, the mildest first; the first changes nothing.
---@param f moonring.MemoryFacts
---@return moonring.Measure[]
function plan.measures(f) end

--- What `f` takes with a measure.
---@param f moonring.MemoryFacts
---@param measure moonring.Measure
---@param bytes number that a rank may take
---@return moonring.PlanRow
function plan.row(f, measure, bytes) end

--- The sizes of sequence parallelism that `ranks` allow, ascending.
---@param ranks integer
---@return integer[]
function plan.sizes(ranks) end

--- Every row: sizes, strategies, measures.
---@param f moonring.MemoryFacts
---@param bytes number
---@param strategies? string[] the configured one where absent
---@return moonring.PlanRow[]
function plan.rows(f, bytes, strategies) end

--- The first row that fits: the smallest sp with the mildest measure.
---@param rows moonring.PlanRow[]
---@return moonring.PlanRow?
function plan.propose(rows) end

--- The first that fits with nothing offloaded that is not already.
---@param rows moonring.PlanRow[]
---@return moonring.PlanRow?
function plan.propose_in_memory(rows) end

--- The keys that make a configuration a row's, as "name: value".
---@param row moonring.PlanRow
---@param f moonring.MemoryFacts
---@return string[]
function plan.keys(row, f) end

--- What else would make room where no row fits, in words.
---@param rows moonring.PlanRow[]
---@param f moonring.MemoryFacts
---@param bytes number
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@return string[]
function plan.last_resorts(rows, f, bytes, facts_with) end

--- A row for each strategy, everything else as it is.
---@param f moonring.MemoryFacts
---@param bytes number
---@return moonring.PlanRow[]
function plan.strategies(f, bytes) end

--- Seconds that a row's step sends, estimated.
---@param row moonring.PlanRow
---@param near number bytes a second within a machine
---@param far number bytes a second between machines
---@return number
function plan.seconds(row, near, far) end

return plan
