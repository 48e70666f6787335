--- Phases of a run other than its steps, such as loading the model. Each phase has a line on the
-- terminal, with a progress bar if its units can be counted; its time is in the summary at the end.
local trainer = require "moonring.native.trainer"

---@class moonring.phases
local phases = {}

local function finish(progress, ...)
  progress:end_phase()
  return ...
end

--- Runs `body` as a phase and returns its results. The argument of `body` is a counter of finished
--- units. It is nil if there is no `unit`, or no progress display (on ranks above 0).
---@param progress? moonring.Progress
---@param name string such as "preparing data"
---@param unit? string such as "rows"
---@param body fun(work: moonring.WorkCount?): ...
---@return any ...
function phases.run(progress, name, unit, body)
  if not progress then return body(nil) end
  local work = unit and trainer.work_count() or nil
  progress:begin_phase(name, unit, work)
  return finish(progress, body(work))
end

--- Creates the progress display that the key `progress` asks for. disable_tqdm: true turns the
--- display off, unless `progress` is set.
---@param c moonring.Configuration
---@param device? "cpu" | "cuda" device whose memory is shown
---@return moonring.Progress
function phases.progress(c, device)
  local kind = c.progress
  if c.disable_tqdm and kind == "auto" then kind = "off" end
  return trainer.progress { kind = kind, gpu = device == "cuda" }
end

--- The phases' times as text: "data 2.0 s, model 12 s".
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
