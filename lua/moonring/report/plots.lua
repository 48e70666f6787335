--- Plots of a training's curves from its log, in output_dir.

---@class moonring.plots
local plots = {}

--- Plots the losses and accuracies in the log, and logs the path of each picture. On rank 0.
---@param journal moonring.Journal
function plots.draw(journal)
  local c, log = journal.config, journal.log
  local keys = { "loss", "eval_loss", "rewards/accuracies", "eval_accuracy" }
  for _, name in ipairs(c.eval_on_each_dataset and c.eval_dataset or {}) do
    keys[#keys + 1], keys[#keys + 2] = "eval_" .. name .. "_loss", "eval_" .. name .. "_accuracy"
  end
  for _, key in ipairs(keys) do
    if log:has(key) then
      local path = c.output_dir .. "/training_" .. key:gsub("/", "_") .. ".png"
      log:plot(key, path, "training " .. key .. " of " .. c.output_dir)
      journal:say("plot    " .. path)
    end
  end
end

return plots
