--- Writes the hidden states after each layer of a model, to compare a device with the CPU:
--- moonring layers.lua model_name_or_path=DIR input=IN.json out=OUT.safetensors [key=value...]
--- The input is that of `probe`; keys are those of train (bf16, fp64, ...). OUT has "layer 000",
--- which is the embedding, "layer 001", ... and "norm".
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local probe = require "moonring.commands.probe"
local strategies = require "moonring.choices.strategies"
local config = moonring.config.command(arg, {
  { "input", "string", moonring.null, "the tokens" },
  { "out", "string", moonring.null, "the file to write" },
})
moonring.config.require_keys(config, { "model_name_or_path", "input", "out" })
local checkpoint = moonring.policy.open(config)
local input = probe.read(config.input, checkpoint:vocab_size())
local mesh = compute.mesh(config)
local zero = moonring.trainer.zero { mesh = mesh, expert_ranks = config.expert_parallel_size }
local model = moonring.policy.load(config, checkpoint, zero)
local attention = strategies.open(config, mesh, model)
local ids, positions, _, plan = attention:cut(probe.sequence(input), nil,
  config.shift_attn)
local layers = {}
for layer = 0, checkpoint:facts().layers do layers[#layers + 1] = layer end
local hidden, states = model:forward(ids, positions, plan, { states = layers })
local streams = { norm = hidden }
for layer, stream in pairs(states) do streams[("layer %03d"):format(layer)] = stream end
moonring.safetensors.write(config.out, streams)
