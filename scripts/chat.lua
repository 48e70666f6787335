--- moonring chat MODEL [key=value...]: talk with a model. Reads a line, answers as it decodes; `clear` forgets, `exit` ends.
-- Greedy, unless do_sample=true or temperature, top_p or top_k is given. Keys: template (absent: found by the model's own),
-- default_system, adapter_name_or_path, add_tokens, add_special_tokens and resize_vocab (an adapter's: those it was trained with), max_new_tokens, do_sample, temperature, top_p, top_k, repetition_penalty, seed, bf16.
local moonring = require "moonring"
local path = table.remove(arg, 1)
if not path or path:find "=" then moonring.config.fail("usage: moonring chat MODEL [key=value...]") end
local config = moonring.config.load(nil, arg)
local checkpoint = moonring.model.open(path)
local fits = moonring.chat.guess_template(checkpoint)
local tokenizer = moonring.vocabulary.open(config, checkpoint, fits)
local template = moonring.data.template(moonring.templates.of(config, fits), tokenizer, config.default_system)
local chat = moonring.chat.new(moonring.models.load(config, checkpoint), tokenizer, template, moonring.chat.sampling(config))

for _, note in ipairs(config.notes) do io.stderr:write(note, "\n") end
local terminal = moonring.system.is_terminal()
while true do
  if terminal then io.stderr:write "> " end
  local line = io.read "*l"
  if not line or line == "exit" then break end
  if line == "clear" then
    chat:clear()
  elseif line:find "%S" then
    chat:answer(line, function(text)
      io.write(text)
      io.flush()
    end)
    io.write "\n"
  end
end
