--- What a training run tells: the log and the plot in output_dir, progress on the terminal, a sample answer before and after.
-- Rank 0 writes; the other ranks only take part in what all must (peak memory).
local chat = require "moonring.chat"
local data = require "moonring.native.data"
local trainer = require "moonring.native.trainer"

local journal = {}
local Journal = {}
Journal.__index = Journal

function journal.open(config, mesh, counts, dataset, attention)
  local self = setmetatable({ config = config, mesh = mesh, counts = counts, tokens = 0, since = {}, total_loss = 0, steps = 0, chosen = {} }, Journal)
  if mesh:rank() ~= 0 then return self end
  self.log = trainer.log {
    dir = config.output_dir,
    total_steps = counts.total_steps,
    num_train_epochs = config.num_train_epochs,
    logging_steps = config.logging_steps,
    train_batch_size = config.per_device_train_batch_size,
  }
  self.progress = trainer.progress { total_steps = counts.total_steps }
  self.progress:line(dataset:report())
  self.progress:line(("%d steps of %d examples; %s; %s"):format(counts.total_steps, counts.examples_per_step, tostring(mesh), tostring(attention)))
  return self
end

--- Takes what attention says of a micro-batch, and tells of each strategy that "auto" chooses, once.
function Journal:attention(said)
  local strategy = said:match "^auto chose (.-) for "
  if not self.progress or not strategy or self.chosen[strategy] then return end
  self.chosen[strategy] = true
  self.progress:line("attention: " .. said)
end

--- Takes a step's numbers: { step, loss, lr, grad_norm, tokens, epoch }; loss is the whole step's. Logs where it is time to.
function Journal:step(record)
  self.steps, self.tokens = record.step, self.tokens + record.tokens
  self.total_loss = self.total_loss + record.loss
  self.since[#self.since + 1] = record.loss
  local c = self.config
  local due = record.step % c.logging_steps == 0 or (record.step == 1 and c.logging_first_step)
  if due then
    local peak = self.mesh:max(trainer.peak_memory())
    local mean = 0
    for _, loss in ipairs(self.since) do mean = mean + loss / #self.since end
    self.since = {}
    if self.log then
      local norm = c.max_grad_norm > 0 and record.grad_norm or nil
      local words = self.log:write { step = record.step, loss = mean, lr = record.lr, grad_norm = norm, tokens = self.tokens, epoch = record.epoch,
        peak_memory_bytes = peak }
      self.progress:report(record.step, words)
    end
  end
  if self.progress then self.progress:step(record.step) end
end

function Journal:close()
  if not self.log then return end
  local c = self.config
  self.log:finish(self.total_loss / math.max(self.steps, 1), self.steps * self.counts.examples_per_step)
  self.progress:line("model   " .. c.output_dir)
  self.progress:line("log     " .. c.output_dir .. "/trainer_log.jsonl")
  if c.plot_loss and self.steps >= c.logging_steps then
    local path = c.output_dir .. "/training_loss.png"
    self.log:plot("loss", path, "training loss of " .. c.output_dir)
    self.progress:line("plot    " .. path)
  end
end

--- A function that prints the model's answer to sample_prompt: `sample "before"`. Greedy, so that it is the same each time.
function journal.sampler(config, mesh, model, tokenizer)
  if not config.sample_prompt or mesh:rank() ~= 0 then return function() end end
  local template = data.template(config.template or "default", tokenizer, config.default_system)
  return function(when)
    local answer = chat.new(model, tokenizer, template, { max_new_tokens = 64 }):answer(config.sample_prompt)
    print(("%s training  %s\n  %s"):format(when, config.sample_prompt, answer))
    io.flush()
  end
end

return journal
