--- Activation steering (Turner et al. 2023, Rimsky et al. 2024): the difference between the mean
-- hidden states of two sets of texts is added after one layer, for all tokens of the prompt and of
-- the answer. The difference is the same for any sp.
-- moonring scripts/examples/steer.lua model=DIR layer=12 scale=2 prompt="I think that" sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, layer = 1, scale = 4, tokens = 24, sp = 1,
  strategy = "zigzag-ring", prompt = "I think that the moon",
  more = "I love it.|What a joy to see you!|This is wonderful news.|Everything will be fine.",
  less = "I hate it.|What a pain to see you!|This is terrible news.|Nothing will be fine." }

moonring.launch(opt.sp)
local mesh = moonring.comm.mesh { sp = opt.sp }
local checkpoint = moonring.model.open(opt.model)
local model = moonring.model.load(checkpoint, { frozen = true })
local tokenizer = moonring.data.tokenizer(checkpoint)
local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }

-- The mean hidden state over all tokens of the texts (separated by |), the same on the whole sp
-- group.
local function mean(texts)
  local documents, tokens = {}, 0
  for text in texts:gmatch "[^|]+" do
    documents[#documents + 1] = tokenizer:encode(text)
    tokens = tokens + #documents[#documents]
  end
  local ids, positions, _, plan = attention:cut(moonring.comm.sequence { documents = documents })
  local hidden = model:forward(ids, positions, plan, { upto = opt.layer }) -- this rank's tokens
  return mesh:sum_sp(hidden:sum { 0 }) / tokens
end

local direction = moonring.no_grad(function() return mean(opt.more) - mean(opt.less) end)

local function answer(around)
  local ids = model:generate(tokenizer:encode(opt.prompt), { max_new_tokens = opt.tokens,
    around = around })
  return opt.prompt .. tokenizer:decode(ids, true)
end

if mesh:rank() == 0 then
  print(("direction %.6f after layer %d"):format(direction:norm():item(), opt.layer))
  moonring.terminal.print("plain    " .. answer())
  for _, sign in ipairs { 1, -1 } do
    moonring.terminal.print(("%+g  %s"):format(sign * opt.scale, answer {
      [opt.layer] = function(hidden) return hidden + direction * (sign * opt.scale) end,
    }))
  end
end
