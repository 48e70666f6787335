--- Shows the first example of the data as the model reads it, and which part of it is trained.

---@class moonring.trained_example
local trained_example = {}

local OPEN, CLOSE = "»", "«"
local MOST = 400 -- bytes of each part of a document that are shown
local IGNORED = -100

-- Shortens a long text in its middle, at borders of UTF-8 characters.
local function shortened(text)
  if #text <= MOST then return text end
  local half = MOST / 2
  local head = text:sub(1, half):gsub("[\192-\255][\128-\191]*$", "")
  local tail = text:sub(-half):gsub("^[\128-\191]+", "")
  return ("%s ... (%d bytes) ... %s"):format(head, #text - #head - #tail, tail)
end

-- Splits ids into spans of trained and of other tokens: lists of { trained, ids }.
local function spans(ids, labels)
  local list = {}
  for i, id in ipairs(ids) do
    local trained = labels[i] ~= nil and labels[i] ~= IGNORED
    local last = list[#list]
    if not last or last.trained ~= trained then
      last = { trained = trained, ids = {} }
      list[#list + 1] = last
    end
    last.ids[#last.ids + 1] = id
  end
  return list
end

local function marked(document, tokenizer)
  local parts = {}
  for _, span in ipairs(spans(document.ids, document.labels or {})) do
    local text = shortened(tokenizer:decode(span.ids))
    parts[#parts + 1] = span.trained and OPEN .. text .. CLOSE or text
  end
  return (table.concat(parts):gsub("\n", "\n          "))
end

local HEADS = { dpo = { "chosen", "rejected" }, rm = { "chosen", "rejected" } }

--- The first example as text; each part that is trained stands between » and «. nil for a stream,
--- which has not been read yet, and if there is no tokenizer.
---@param c moonring.Configuration
---@param dataset moonring.Dataset | moonring.Stream
---@param tokenizer? moonring.Tokenizer
---@return string?
function trained_example.text(c, dataset, tokenizer)
  if c.streaming or not tokenizer or dataset:size() == 0 then return nil end
  local heads, lines = HEADS[c.stage] or {}, {}
  for i, document in ipairs((dataset:example(0))) do
    local head = heads[i] or i == 1 and "example" or "another"
    lines[i] = ("%-9s %s"):format(head, marked(document, tokenizer))
    if not heads[i] and i == 1 then break end
  end
  return table.concat(lines, "\n")
end

return trained_example
