--- moonring inspect MODEL [tokens=N]: shows a model's family, parameters by module, dtype and
-- tokenizer, and the memory to train it. MODEL: a Hugging Face folder, a .gguf file,
-- builtin:smollm2, a name on a hub (ORG/NAME), or a config.json without weights. Reads only file
-- headers, not the weights. tokens: tokens of a micro-batch on one rank (4096).
local moonring = require "moonring"
local inspect = require "moonring.commands.inspect"
local path = moonring.config.path(arg, "moonring inspect MODEL [tokens=N]")
local config = moonring.config.load(nil, arg, {
  { "tokens", "int", 4096, "tokens of a micro-batch on one rank" },
})
if config.tokens < 1 then
  moonring.config.fail("tokens: ", config.tokens, ", expected 1 or more")
end
local open = path:find "%.json$" and moonring.model.open_config or moonring.model.open
local checkpoint = open(path, config)
moonring.terminal.print(inspect.text(checkpoint, config.tokens))
