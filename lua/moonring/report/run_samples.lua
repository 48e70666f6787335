--- Texts that a run's model generated, for a page: answers to sample_prompt, completions of
-- rollouts, predictions. Only the first few of each kind are shown, and long texts are truncated.
local completion_groups = require "moonring.report.completion_groups"
local growing_file = require "moonring.report.growing_file"
local system = require "moonring.native.system"

---@class moonring.run_samples
local run_samples = {}

local ROWS, LONGEST, READ = 24, 4000, 2 ^ 18
local ANSWERS = "sample_answers.jsonl"

-- Truncates a long text, without cutting a UTF-8 character.
local function cut(text)
  if #text <= LONGEST then return text end
  local stop = LONGEST
  while stop > LONGEST - 4 and (text:byte(stop + 1) or 0) >= 0x80
    and (text:byte(stop + 1) or 0) < 0xc0 do
    stop = stop - 1
  end
  return ("%s ... (%d bytes more)"):format(text:sub(1, stop), #text - stop)
end

local function shortened(row)
  local short = {}
  for name, value in pairs(row) do
    short[name] = type(value) == "string" and cut(value) or value
  end
  return short
end

-- Decodes the first complete lines of a file, at most `most`.
local function first_rows(text, path, most)
  local rows = {}
  for line in text:gmatch "([^\n]*)\n" do
    if #rows == most then break end
    local row = growing_file.decode(line, path, #rows + 1)
    if type(row) == "table" then rows[#rows + 1] = shortened(row) end
  end
  return rows
end

-- Lists the files with generated texts, and their kinds on the page. Of the rollouts only the first
-- and the newest are listed.
local function files(folder)
  local list = { { kind = "answers", name = ANSWERS } }
  local rollouts = {}
  for _, name in ipairs(system.list(folder .. "/completions")) do
    if name:find "^%d+%.jsonl$" then rollouts[#rollouts + 1] = "completions/" .. name end
  end
  if rollouts[1] then list[2] = { kind = "completions", name = rollouts[1] } end
  if rollouts[2] then list[3] = { kind = "completions", name = rollouts[#rollouts] } end
  list[#list + 1] = { kind = "predictions", name = "generated_predictions.jsonl" }
  return list
end

--- Reads new texts into parts.samples, as { kind, file, rows } each, or { kind, file, groups } for
--- completions.
---@param run moonring.RunFiles
---@return boolean whether anything is new
function run_samples.refresh(run)
  local read, heads = {}, {}
  for _, file in ipairs(files(run.folder)) do
    local path = run.folder .. "/" .. file.name
    if system.exists(path) then
      file.text = system.read_part(path, 0, READ)
      read[#read + 1], heads[#heads + 1] = file, file.name .. "\n" .. file.text
    end
  end
  local whole = table.concat(heads, "\n")
  if run.texts.samples == whole then return false end
  run.texts.samples, run.parts.samples = whole, {}
  for i, file in ipairs(read) do
    local sample = { kind = file.kind, file = file.name }
    if file.kind == "completions" then
      local rows = first_rows(file.text, run.folder .. "/" .. file.name, math.huge)
      sample.groups, sample.prompts = completion_groups.of(rows, #file.text == READ)
    else
      sample.rows = first_rows(file.text, run.folder .. "/" .. file.name, ROWS)
    end
    run.parts.samples[i] = sample
  end
  return true
end

--- Adds an answer to sample_prompt to the file of answers.
---@param folder string
---@param answer { when: string, prompt: string, answer: string }
function run_samples.note(folder, answer)
  local path = folder .. "/" .. ANSWERS
  local before = system.exists(path) and system.read(path) or ""
  system.write(path, before .. system.json_encode(answer) .. "\n")
end

--- Removes the answers of an earlier run in the folder.
---@param folder string
function run_samples.forget(folder) system.remove(folder .. "/" .. ANSWERS) end

return run_samples
