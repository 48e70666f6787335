--- moonring export CONFIG.yaml [key=value...]: merges adapters into a model and writes it as one
-- Hugging Face folder or GGUF file. It is a GGUF file if export_dir ends in .gguf. Keys:
-- model_name_or_path, adapter_name_or_path (merged in this order; absent: the model unchanged),
-- export_dir, export_size (at most so many GB per file), infer_dtype, export_gguf_type (f32, f16,
-- bf16 or q8_0 for a .gguf file; auto: from the model's dtype), stage (rm: the value head too),
-- template, add_tokens, add_special_tokens and resize_vocab (change tokenizer and embedding as
-- train does). Weights are merged in fp64 and rounded once, to the dtype of config.json or of
-- infer_dtype; for a .gguf file to fp32 and then to export_gguf_type. With quantization_bit (and
-- quantization_type, ...) adapters are merged into the dequantized base that they were trained on;
-- without it into the weights of the files.
local moonring = require "moonring"
local gguf_file = require "moonring.model.gguf_file"
local packing = require "moonring.model.packing"
local phases = require "moonring.report.phases"
local vocabulary = require "moonring.data.vocabulary"
local config = moonring.config.command(arg)
moonring.config.require_keys(config, { "model_name_or_path", "export_dir" })
if config.export_size < 1 then
  moonring.config.fail("export_size: ", config.export_size, ", expected 1 or more")
end
for _, path in ipairs { config.model_name_or_path, unpack(config.adapter_name_or_path or {}) } do
  if path == config.export_dir then
    moonring.config.fail("export_dir: ", path, " is what is to be exported, name another folder")
  end
end
local to_gguf = gguf_file.is_asked(config)

local checkpoint = moonring.model.open(config.model_name_or_path, config)
if config.template or vocabulary.asked(config) then
  vocabulary.open(config, checkpoint)
end
for _, note in ipairs(config.notes) do moonring.terminal.note(note, "\n") end
local gguf = to_gguf and gguf_file.options(config, checkpoint)
local dtype = ({ float32 = "fp32", bfloat16 = "bf16", float16 = "fp16" })[config.infer_dtype]
  or checkpoint:dtype()
if gguf then dtype = "fp32" end -- converted to export_gguf_type on writing
-- The precision of the weights in memory, before they are written.
local precision = ({ bf16 = "pure_bf16", fp64 = "fp64" })[dtype] or "fp32"
-- An adapter that was trained on a quantized base must be merged into the dequantized weights.
local code = packing.of(config)
local rounded = code and code ~= "file" and code or nil
local progress = phases.progress(config)
local model = phases.run(progress, "loading the model", "weights", function(work)
  return moonring.model.load(checkpoint, { precision = precision, work = work,
    adapters = moonring.model.adapters(config.adapter_name_or_path, config), pack = rounded,
    pack_rounds_only = rounded and true, pack_dtype = rounded and packing.dtype(config) })
end)
phases.run(progress, "writing it", "weights", function(work)
  if gguf then return model:save_gguf(config.export_dir, gguf) end
  model:save(config.export_dir, { dtype = dtype, shard_bytes = config.export_size * 1e9,
    work = work })
end)
if config.stage == "rm" then
  local head = model:value_head()
  if head:found() then head:save(config.export_dir) end
end
if code then
  moonring.terminal.note(("the adapters are merged into the base as %s gives it, not as its files "
    .. "have it, and the sums are rounded to %s\n"):format(rounded or "the .gguf file",
    gguf and gguf.type or dtype))
end
local head = model:head():weight():name()
local tied = true
for _, weight in ipairs(checkpoint:weight_shapes()) do tied = tied and weight.name ~= head end
if tied then
  moonring.terminal.note(("the adapters change the head and not the embedding, which the model "
    .. "shares: %s is stored by itself (tie_word_embeddings: false)\n"):format(head))
end
moonring.terminal.print(("%s: %s in %s, %d adapters merged"):format(config.export_dir,
  tostring(model), gguf and gguf.type or dtype, #(config.adapter_name_or_path or {})))
progress:line(phases.words(progress))
