--- Writes error messages that name a reward and a row of a batch, so that users find the row in the
-- data set.
local errors = require "moonring.base.errors"

---@class moonring.row_words
local row_words = {}

local SHOWN = 60 -- bytes of a prompt

-- The beginning of a text as one line, without cutting UTF-8 characters.
local function beginning(text)
  local line = text:gsub("%s+", " ")
  if #line <= SHOWN then return line end
  local cut = SHOWN
  while cut > 0 and (line:byte(cut + 1) or 0) >= 0x80 and line:byte(cut + 1) < 0xC0 do
    cut = cut - 1
  end
  return line:sub(1, cut) .. "..."
end

--- Names a scorer: "reward 'NAME'", with its source.
---@param scorer moonring.Scorer
---@return string
function row_words.of_scorer(scorer)
  local place = scorer.place ~= "" and (" (%s)"):format(scorer.place) or ""
  return ("reward '%s'%s"):format(scorer.name, place)
end

--- Names a row: "row 17 of the data set ('What is ..'), completion 3 of the batch".
---@param batch moonring.RewardBatch
---@param i integer from 1
---@return string
function row_words.of_row(batch, i)
  local prompt = ("('%s')"):format(beginning(batch.prompts[i] or ""))
  local row = batch.rows and batch.rows[i]
  if not row then return ("completion %d of the batch %s"):format(i, prompt) end
  return ("row %d of the data set %s, completion %d of the batch"):format(row, prompt, i)
end

--- Raises an error of a reward about a row. Its code is ABORTED, because a retry would fail again.
---@param scorer moonring.Scorer
---@param batch moonring.RewardBatch
---@param i integer from 1; 0: the whole batch
---@param ... string | number pieces of the message
function row_words.fail(scorer, batch, i, ...)
  row_words.raise("ABORTED", scorer, batch, i, ...)
end

--- Raises an error of a reward about a row, with the given status code.
---@param code string
---@param scorer moonring.Scorer
---@param batch moonring.RewardBatch
---@param i integer
---@param ... string | number
function row_words.raise(code, scorer, batch, i, ...)
  local row = i > 0 and row_words.of_row(batch, i) .. ": " or ""
  errors.raise(code, row_words.of_scorer(scorer), ": ", row, ...)
end

return row_words
