--- moonring stream_place.lua whole|rest MODEL STATE OUT BATCH STEPS PLACE: reads a data stream.
-- "whole" reads from its beginning and saves its state to STATE after PLACE steps; "rest"
-- continues from that state. Writes the contents of each step after PLACE to OUT, and prints the
-- seconds until the first step is read.
local moonring = require "moonring"
local count = require "moonring.run.numbered_steps"
local mode, model, state, out = arg[1], arg[2], arg[3], arg[4]
local batch, last, place = tonumber(arg[5]), tonumber(arg[6]), tonumber(arg[7])

local began = moonring.system.clock()
local tokenizer = moonring.data.tokenizer(moonring.model.open(model))
local stream = moonring.data.stream { names = { "big" }, dir = ".", template = "chatml",
  tokenizer = tokenizer, cutoff_len = 64 }
local steps = stream:steps { mesh = moonring.comm.mesh {}, batch = batch, total_steps = last,
  micro_batch_tokens = 4096 }
local made = 0
if mode == "rest" then
  steps:load_state(moonring.system.read(state))
  made = place
end

local lines, seconds = {}, nil
for step, k in count(steps, made) do
  seconds = seconds or moonring.system.clock() - began
  if k > place then
    local sum = 0
    for _, micro in ipairs(step:micro_batches()) do sum = micro:sequence():checksum(sum) end
    lines[#lines + 1] = ("step %d epoch %d checksum %08x examples %s"):format(k, step:epoch(), sum,
      table.concat(step:examples(), " "))
  end
  if mode == "whole" and k == place then moonring.system.write(state, steps:save_state()) end
  step:close()
end
moonring.system.write(out, table.concat(lines, "\n") .. "\n")
print(("%s: %.2f s to the first step"):format(mode, seconds))
