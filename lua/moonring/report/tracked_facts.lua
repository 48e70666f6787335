--- The facts about a run that trackers (the key report_to) receive at its beginning.
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.tracked_facts
local tracked_facts = {}

local EXAMPLES = 3

-- A key's value as a number, a boolean or a string.
local function shown(value)
  if type(value) == "table" then return system.json_encode(value) end
  if type(value) == "function" then return "a function" end
  return value
end

-- The values of all keys that have an effect, without secret ones.
local function configuration(c)
  local values = {}
  for row in keys.rows() do
    local value = c[row[1]]
    if value ~= nil and value ~= system.null and keys.is_written(row) then
      values[row[1]] = shown(value)
    end
  end
  return values
end

-- The first examples as texts; an example's documents follow one another.
local function examples(dataset, tokenizer)
  local texts = {}
  for i = 1, math.min(EXAMPLES, dataset:size()) do
    local documents = {}
    for d, document in ipairs((dataset:example(i - 1))) do
      documents[d] = tokenizer:decode(document.ids)
    end
    texts[i] = table.concat(documents, "\n\n---\n\n")
  end
  return texts
end

--- The name of the run: run_name, or that of output_dir.
---@param c moonring.Configuration
---@return string
function tracked_facts.name(c)
  return c.run_name or c.output_dir:match "([^/]+)/*$" or c.output_dir
end

--- Collects the facts. For a stream they contain no examples.
---@param c moonring.Configuration
---@param parts moonring.JournalParts
---@return moonring.TrackerFacts
function tracked_facts.of(c, parts)
  local is_stream = c.streaming or not parts.tokenizer
  return {
    name = tracked_facts.name(c),
    configuration = configuration(c),
    model_config = parts.checkpoint:companion "config.json",
    lengths = not is_stream and parts.dataset:document_lengths() or nil,
    examples = is_stream and {} or examples(parts.dataset, parts.tokenizer),
  }
end

return tracked_facts
