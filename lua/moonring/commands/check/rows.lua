--- The documents of a check. Each has at least 256 tokens, because sequence_parallel_mode
-- zigzag-ring cuts every document of 256 tokens or more over two ranks (comm/layout.h).

---@class moonring.check_rows
local rows = {}

-- LEAST: see above. A document of more than MOST tokens keeps its first tokens, and its last LEAST.
local LEAST, MOST = 256, 384

local IGNORED = -100

-- Repeats or cuts a document to LEAST .. MOST tokens.
local function fitted(document)
  local ids, labels, count = {}, {}, #document.ids
  local head = MOST - LEAST
  for i = 1, count > MOST and MOST or math.max(1, math.ceil(LEAST / count)) * count do
    local from = (i - 1) % count + 1
    if count > MOST and i > head then from = count - MOST + i end
    ids[i], labels[i] = document.ids[from], document.labels[from]
  end
  return ids, labels
end

-- The row of an example, under the names of `moonring preprocess`.
local function row_of(reads, documents, desirable)
  local row = {}
  local names = reads == "dpo" and { "chosen_", "rejected_" } or { "", "kl_" }
  for d, document in ipairs(documents) do
    row[names[d] .. "input_ids"], row[names[d] .. "labels"] = fitted(document)
  end
  if reads == "kto" then row.kto_tag = desirable end
  return row
end

--- How many examples a check uses: few, but more than two ranks have, and a number that two ranks
--- cannot share evenly.
---@param reads string what the stage reads: "sft", "dpo", ...
---@return integer
function rows.count(reads) return (reads == "sft" or reads == "pt") and 5 or 3 end

--- The first examples of a data set.
---@param reads string
---@param dataset moonring.Dataset
---@return table[]
function rows.of(reads, dataset)
  local list = {}
  for i = 1, rows.count(reads) do
    list[i] = row_of(reads, dataset:example((i - 1) % dataset:size()))
  end
  return list
end

-- A generator of pseudo-random integers (Park and Miller).
local function chance(seed)
  local state = seed
  return function(n)
    state = state * 16807 % 2147483647
    return state % n
  end
end

-- A document: a prompt, whose labels are ignored, and an answer.
local function drawn(draw, prompt, tokens, vocabulary)
  local document = { ids = {}, labels = {} }
  for i = 1, tokens do
    local id = draw(vocabulary)
    document.ids[i], document.labels[i] = id, i > prompt and id or IGNORED
  end
  return document
end

--- Synthetic examples, of documents of different lengths with random ids.
---@param reads string
---@param vocabulary integer ids are below
---@return table[]
function rows.synthetic(reads, vocabulary)
  local draw, list = chance(5), {}
  local documents = (reads == "sft" or reads == "pt") and 1 or 2
  for i = 1, rows.count(reads) do
    local example = {}
    for d = 1, documents do
      local prompt = reads == "pt" and 0 or 17 * i + 30 * (d - 1)
      example[d] = drawn(draw, prompt, LEAST + 19 * i + 7 * d, vocabulary)
    end
    list[i] = row_of(reads, example, i % 2 == 1)
  end
  return list
end

return rows
