-- Measures a tokenizer: tokenize.lua MODEL FILE. Encodes the texts of a file (a JSON array, one
-- text per line) in five passes. Prints JSON: seconds of the first pass, of the best one of the
-- others, and the number of tokens.
local moonring = require "moonring"
local tokenizer = moonring.data.tokenizer(moonring.model.open(arg[1]))
local texts = {}
for line in io.lines(arg[2]) do texts[#texts + 1] = moonring.system.yaml_decode(line)[1] end
local first, best, tokens = nil, math.huge, 0
for _ = 1, 5 do
  tokens = 0
  local began = moonring.system.clock()
  for _, text in ipairs(texts) do tokens = tokens + #tokenizer:encode(text) end
  local seconds = moonring.system.clock() - began
  if first then best = math.min(best, seconds) end
  first = first or seconds
end
print(moonring.system.json_encode { first = first, best = best, tokens = tokens })
