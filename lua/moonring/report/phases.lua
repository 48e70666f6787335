--- What of a run lasts beside its steps: each phase has a line of its own on the terminal, with a
-- bar where there is a count, and its time is in the summary at the end.
local trainer = require "moonring.native.trainer"

---@class moonring.phases
local phases = {}

local function finish(progress, ...)
  progress:end_phase()
  return ...
end

--- Runs `body` as a phase and returns what it returns. `body` is given a count of what is done, in
--- units of that name; nil where none is wanted, and where there is no progress to show (on ranks
--- above 0).
---@param progress? moonring.Progress
---@param name string what goes on, such as "preparing data"
---@param unit? string such as "rows"
---@param body fun(work: moonring.WorkCount?): ...
---@return any ...
function phases.run(progress, name, unit, body)
  if not progress then return body(nil) end
  local work = unit and trainer.work_count() or nil
  progress:begin_phase(name, unit, work)
  return finish(progress, body(work))
end

--- The progress of a configuration: by its key progress; disable_tqdm: true is off, unless progress
--- says otherwise itself.
---@param c moonring.Configuration
---@param device? "cpu" | "cuda" whose memory is shown
---@return moonring.Progress
function phases.progress(c, device)
  local kind = c.progress
  if c.disable_tqdm and kind == "auto" then kind = "off" end
  return trainer.progress { kind = kind, gpu = device == "cuda" }
end

--- Times for people: "data 2.0 s, model 12 s".
---@param progress moonring.Progress
---@return string
function phases.words(progress)
  local words = {}
  for _, each in ipairs(progress:spent()) do
    words[#words + 1] = (each.seconds < 10 and "%s %.2f s" or "%s %.0f s"):format(each.name,
      each.seconds)
  end
  return table.concat(words, ", ")
end

return phases
