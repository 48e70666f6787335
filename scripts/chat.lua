--- moonring chat MODEL|ADAPTER|CONFIG.yaml [key=value...]: chats with a model on the terminal. Each
-- line is a user message; the answer is printed as it is decoded. `clear` starts a new
-- conversation, `exit` ends. ADAPTER: an adapter's folder; its base model is the one in
-- adapter_config.json, or model_name_or_path=. CONFIG.yaml: a LLaMA-Factory configuration for
-- inference; its keys may also be given without a file. Decoding is greedy unless do_sample=true,
-- temperature, top_p or top_k is given. Keys: template (absent: the model's own), default_system,
-- enable_thinking, adapter_name_or_path; add_tokens, add_special_tokens and resize_vocab (as the
-- adapter was trained with them); max_new_tokens, do_sample, temperature, top_p, top_k,
-- repetition_penalty, skip_special_tokens, seed, bf16. With --requests FOLDER before MODEL it
-- answers lines of JSON for `moonring watch` (lua/moonring/run/chat_requests.lua).
local moonring = require "moonring"
local chats = require "moonring.run.chat"
local vocabulary = require "moonring.data.vocabulary"
if arg[1] == "--requests" then
  return require("moonring.run.chat_requests").serve { unpack(arg, 2) }
end
local config = chats.command(arg, "moonring chat MODEL|ADAPTER|CONFIG.yaml [key=value...]")
local checkpoint = moonring.model.open(config.model_name_or_path, config)
local tokenizer = vocabulary.open(config, checkpoint)
local template, note = chats.template(config, checkpoint, tokenizer)
local chat = chats.new(moonring.policy.load(config, checkpoint), tokenizer, template,
  chats.sampling(config), not config.skip_special_tokens)

config.notes[#config.notes + 1] = note
for _, line in ipairs(config.notes) do moonring.terminal.note(line, "\n") end
local terminal = moonring.system.is_terminal()
while true do
  if terminal then moonring.terminal.note "> " end
  local line = io.read "*l"
  if not line or line == "exit" then break end
  if line == "clear" then
    chat:clear()
  elseif line:find "%S" then
    chat:answer(line, moonring.terminal.write)
    io.write "\n"
  end
end
