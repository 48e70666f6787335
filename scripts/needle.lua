--- moonring needle MODEL [key=value...]: needle-in-a-haystack test, as a table and a heat-map.
-- Hides a fact at several depths of texts of several lengths and asks for it. A score is the
-- fraction of the greedy answer before its first wrong token, averaged over trials. Keys: lengths
-- (tokens, comma-separated), depths (percent, comma-separated), trials, out (the picture), template
-- (absent: the model's own), and keys of train: adapter_name_or_path, sequence_parallel_size,
-- sequence_parallel_mode, bf16, seed, ...
local moonring = require "moonring"
local chat = require "moonring.run.chat"
local compute = require "moonring.choices.compute"
local needle = require "moonring.commands.needle"
local strategies = require "moonring.choices.strategies"
local vocabulary = require "moonring.data.vocabulary"
local path = moonring.config.path(arg,
  "moonring needle MODEL [lengths=512,1024,2048] [key=value...]")
local config = moonring.config.load(nil, arg, {
  { "lengths", "list", "256,512,1024,2048", "tokens of the texts" },
  { "depths", "list", "0,25,50,75,100", "where the fact stands, in percent" },
  { "trials", "int", 1, "texts of each length and depth" },
  { "out", "string", "needle.png", "the picture" },
})
strategies.check(config)
moonring.config.check_output(config, "out")
local lengths, depths = needle.numbers("lengths", config.lengths, 16, math.huge),
  needle.numbers("depths", config.depths, 0, 100)
local checkpoint = moonring.model.open(path, config)
moonring.launch(config.sequence_parallel_size)

local mesh = compute.mesh(config)
local tokenizer = vocabulary.open(config, checkpoint)
local template, note = chat.template(config, checkpoint, tokenizer)
local model = moonring.policy.load(config, checkpoint)
local attention = strategies.open(config, mesh, model)

local function say(text)
  if mesh:rank() ~= 0 then return end
  moonring.terminal.print(text)
  io.flush()
end

if note then say(note) end

-- Scores by length and depth; the trials are distributed over the dp ranks.
local shares, cell = {}, 0
for l, length in ipairs(lengths) do
  shares[l] = {}
  for d, depth in ipairs(depths) do
    shares[l][d] = 0
    for trial = 1, config.trials do
      if cell % mesh:dp_size() == mesh:dp_rank() then
        local problem = needle.problem(tokenizer, template, length, depth / 100,
          config.seed + 1000 * l + 100 * d + trial)
        shares[l][d] = shares[l][d] + needle.score(problem,
          needle.read(problem, model, attention, mesh)) / config.trials
      end
      cell = cell + 1
    end
  end
end
shares = mesh:sum_dp(moonring.tensor(shares, "fp64")):tolist()

say(needle.text(lengths, depths, shares))
if mesh:rank() == 0 then needle.draw(config.out, path, lengths, depths, shares) end
say("picture  " .. config.out)
