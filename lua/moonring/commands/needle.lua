--- The needle-in-a-haystack test: one fact is hidden among many random sentences, and the model
-- must retrieve it by greedy decoding.
local autograd = require "moonring.native.autograd"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local objectives = require "moonring.native.objectives"
local trainer = require "moonring.native.trainer"
local tensors = require "moonring.native.tensor"

---@class moonring.needle
local needle = {}

---@class moonring.NeedleProblem
---@field ids integer[]
---@field labels integer[] unshifted; only the answer's tokens have labels
---@field answer integer[] token ids of the answer
---@field number string the number that the fact states

local WHO = { "a lantern", "the harbour", "the ferryman", "an old map", "the north wind",
  "a copper bell", "the orchard", "a paper boat", "the miller", "seven geese" }
local DOES = { "keeps", "remembers", "follows", "mends", "waits for", "looks after", "has heard of",
  "hides from" }
local FACT, QUESTION, ANSWER = "The secret number of the lighthouse is %s.",
  "What is the secret number of the lighthouse? Answer with the number alone.",
  "The secret number of the lighthouse is"

--- Parses a list of numbers, or a text with commas between them. Errors: INVALID_ARGUMENT if an
--- item is not a number from `least` to `most`.
---@param name string for the message
---@param list string[] | string
---@param least number
---@param most number
---@return number[]
function needle.numbers(name, list, least, most)
  local numbers = {}
  for item in (type(list) == "table" and table.concat(list, ",") or list):gmatch "[^,]+" do
    local number = tonumber(item)
    if not number or number < least or number > most then
      config.fail(name, ": expected numbers from ", least, most == math.huge and " on" or " to "
        .. most, ", got '", item, "'")
    end
    numbers[#numbers + 1] = number
  end
  if #numbers == 0 then config.fail(name, ": expected at least one number") end
  return numbers
end

-- A portable random generator (Park and Miller): a seed gives the same numbers on every machine.
local function chance(seed)
  local state = seed % 2147483646 + 1
  return function(n)
    state = state * 16807 % 2147483647
    return state % n + 1
  end
end

local function sentence(draw)
  local text = WHO[draw(#WHO)] .. " " .. DOES[draw(#DOES)] .. " " .. WHO[draw(#WHO)] .. "."
  return text:sub(1, 1):upper() .. text:sub(2)
end

--- Makes a prompt of at most `length` tokens, including the answer. The seed determines it
--- completely.
---@param tokenizer moonring.Tokenizer
---@param template moonring.Template
---@param length integer
---@param depth number position of the fact: the fraction, 0 to 1, of the text before it
---@param seed integer
---@return moonring.NeedleProblem
function needle.problem(tokenizer, template, length, depth, seed)
  local draw = chance(seed)
  local digits = {}
  for i = 1, 5 do digits[i] = draw(i == 1 and 9 or 10) - (i == 1 and 0 or 1) end
  local number = table.concat(digits)
  local prefix, answer = tokenizer:encode(ANSWER), tokenizer:encode(" " .. number)
  local function prompt(hay)
    return template:encode_prompt { table.concat(hay, " ") .. "\n\n" .. QUESTION }
  end
  local fact = FACT:format(number)
  local room = length - #prompt { fact } - #prefix - #answer
  if room < 0 then
    config.fail("lengths: the question alone takes ", length - room, " tokens, ", length,
      " were asked for")
  end
  local hay = {}
  while true do
    local text = sentence(draw)
    room = room - #tokenizer:encode(" " .. text)
    if room < 0 then break end
    hay[#hay + 1] = text
  end
  table.insert(hay, math.floor(depth * #hay + 0.5) + 1, fact)
  local ids, labels = prompt(hay), {}
  for _, id in ipairs(prefix) do ids[#ids + 1] = id end
  for i = 1, #ids do labels[i] = -100 end
  for _, id in ipairs(answer) do ids[#ids + 1], labels[#labels + 1] = id, id end
  return { ids = ids, labels = labels, answer = answer, number = number }
end

--- The model's greedy prediction at each token of the answer, given the correct tokens before it.
--- Collective over the sp group.
---@param problem moonring.NeedleProblem
---@param model moonring.Model
---@param attention moonring.Attention
---@param mesh moonring.Mesh
---@return integer[]
function needle.read(problem, model, attention, mesh)
  return tensors.scope(autograd.no_grad, function()
    local ids, positions, targets, plan = attention:cut(comm.sequence { documents = { problem.ids },
      labels = { problem.labels } })
    local hidden = model:forward(ids, positions, plan)
    local _, statistics = objectives.log_prob(hidden, model:head(), targets,
      { dtype = model:matmul_dtype(), statistics = { "greedy" } })
    local first, said = #problem.ids - #problem.answer - 1, {}
    for i = 1, #problem.answer do said[i] = 0 end
    local where, greedy = positions:tolist(), statistics.greedy:tolist()
    for row, target in ipairs(targets:tolist()) do
      if target >= 0 then said[where[row] - first + 1] = greedy[row] end
    end
    return mesh:sum_sp(tensors.tensor(said, "fp64")):tolist()
  end)
end

--- The fraction of the answer before the first wrong token.
---@param problem moonring.NeedleProblem
---@param said integer[]
---@return number
function needle.score(problem, said)
  for i, id in ipairs(problem.answer) do
    if said[i] ~= id then return (i - 1) / #problem.answer end
  end
  return 1
end

local function names(lengths, depths)
  local rows, columns = {}, {}
  for l, length in ipairs(lengths) do rows[l] = ("%d"):format(length) end
  for d, depth in ipairs(depths) do columns[d] = ("%g%%"):format(depth) end
  return rows, columns
end

--- The scores as a text table.
---@param lengths integer[] rows, in tokens
---@param depths number[] columns, in percent
---@param shares number[][] scores by length and depth
---@return string
function needle.text(lengths, depths, shares)
  local rows, columns = names(lengths, depths)
  local function line(name, cells)
    return ("%10s  %s"):format(name, (" %5s"):rep(#cells):format(unpack(cells)))
  end
  local lines = { line("tokens", columns) }
  for l, row in ipairs(rows) do
    local cells = {}
    for d, share in ipairs(shares[l]) do cells[d] = ("%.0f%%"):format(100 * share) end
    lines[#lines + 1] = line(row, cells)
  end
  return table.concat(lines, "\n")
end

--- Draws the scores as a heat map.
---@param file string .png or .svg
---@param model string for the title
---@param lengths integer[]
---@param depths number[]
---@param shares number[][]
function needle.draw(file, model, lengths, depths, shares)
  local rows, columns = names(lengths, depths)
  trainer.heat_map(file, { columns = columns, rows = rows, shares = shares,
    title = "needle in a haystack: " .. model, x_label = "depth of the fact", y_label = "tokens" })
end

return needle
