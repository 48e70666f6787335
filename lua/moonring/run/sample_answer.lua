--- The model's answer to sample_prompt, before and after the training.
local chat = require "moonring.run.chat"
local compute = require "moonring.choices.compute"
local configured_template = require "moonring.data.configured_template"
local data = require "moonring.data"
local errors = require "moonring.base.errors"
local run_samples = require "moonring.report.run_samples"
local terminal = require "moonring.base.terminal"

---@class moonring.sample_answer
local sample_answer = {}

--- Returns a function that prints the model's greedy answer to sample_prompt after a word such as
--- "before", or does nothing if sample_prompt is absent. Only rank 0 answers, or all ranks if
--- weights are sharded over them. Arguments of the returned function: `when`, the word; `now`,
--- another model to use; `objective`, whose functions around layers are called without a batch. An
--- objective with functions inside blocks gets no answer, and a note says so.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@param model moonring.Model
---@param tokenizer moonring.Tokenizer
---@param tell? fun(when: string, text: string) called with question and answer, on rank 0
---@return fun(when: string, now: moonring.Model?, objective: moonring.Objective?)
function sample_answer.sampler(config, mesh, model, tokenizer, tell)
  if not config.sample_prompt or (mesh:rank() ~= 0 and not compute.holds_together(config)) then
    return function() end
  end
  local template = data.template(configured_template.of(config), tokenizer, config.default_system)
  return function(when, now, objective)
    if objective and objective.inside then
      if mesh:rank() == 0 and when == "before" then
        terminal.note("sample_prompt gets no answer: generation does not run the objective's ",
          "functions inside blocks (inside)\n")
      end
      return
    end
    local sampling = { max_new_tokens = 64, around = objective and objective.around }
    local answer = chat.new(now or model, tokenizer, template, sampling):answer(
      config.sample_prompt)
    if mesh:rank() ~= 0 then return end
    local words = ("%s training  %s\n  %s"):format(when, config.sample_prompt, answer)
    if config.progress == "json" then -- stdout is only for JSON
      terminal.note(words, "\n")
    else
      terminal.print(words)
      io.flush()
    end
    if tell then tell(when, config.sample_prompt .. "\n\n" .. answer) end
    if not config.report_html then return end
    local ok, why = pcall(run_samples.note, config.output_dir, { when = when,
      prompt = config.sample_prompt, answer = answer })
    if not ok then terminal.note(errors.words(why), "; training continues\n") end
  end
end

return sample_answer
