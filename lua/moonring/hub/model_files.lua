--- Selects the files of a repository that make up a model: config.json, weights in safetensors
-- (otherwise pytorch_model.bin), the tokenizer and related files; or a PEFT adapter; or one .gguf
-- file. Subfolders contain the same model in other formats (original/, onnx/) and are ignored.
local errors = require "moonring.base.errors"
local native = require "moonring.native.model"
local system = require "moonring.native.system"

---@class moonring.model_files
local model_files = {}

-- Names of weight files, in order of preference: one file, or the index that lists several files.
local WEIGHTS = { { "model.safetensors", "model.safetensors.index.json" },
  { "pytorch_model.bin", "pytorch_model.bin.index.json" } }
local ADAPTERS = { "adapter_model.safetensors", "adapter_model.bin" }
local TOKENIZERS = { "tokenizer.json", "tokenizer.model", "spiece.model", "qwen.tiktoken",
  "tekken.json", "vocab.json" }

-- Adds an index, and the files that it lists, to `chosen`. If the index is not downloaded yet, adds
-- only the index and returns true.
local function shards(index, read, chosen)
  chosen[#chosen + 1] = index
  local text = read(index)
  if not text then return true end
  local parsed = system.json_decode(text, index)
  local seen, names = {}, {}
  local map = type(parsed) == "table" and parsed.weight_map
  for tensor, file in pairs(type(map) == "table" and map or {}) do
    if type(file) ~= "string" then
      errors.fail(index, ": weight_map: ", tensor, ": expected a file's name, got a ", type(file))
    end
    if not seen[file] then names[#names + 1] = file end
    seen[file] = true
  end
  table.sort(names)
  for _, name in ipairs(names) do chosen[#chosen + 1] = name end
  return false
end

-- Adds the weight files to `chosen`. Returns whether there are any, and whether an index must be
-- downloaded first.
local function weights(has, read, chosen)
  for _, form in ipairs(WEIGHTS) do
    if has[form[1]] then
      chosen[#chosen + 1] = form[1]
      return true, false
    elseif has[form[2]] then
      return true, shards(form[2], read, chosen)
    end
  end
  return false, false
end

-- The .gguf file that `part` selects: by its path or name, or by a word of its name, such as
-- "Q8_0".
local function gguf(files, part)
  local all, found = {}, {}
  local sought = part and part:lower()
  for _, file in ipairs(files) do
    local name = file:match "[^/]+$"
    if name:find "%.gguf$" and not name:find "^mmproj" then
      all[#all + 1] = name
      local low = name:lower()
      if part and (low == sought or low == sought .. ".gguf") then return file, all end
      local padded = "-" .. low:gsub("%.gguf$", "") .. "-"
      local word = sought and "[-.]" .. sought:gsub("%p", "%%%0") .. "[-.]"
      if not word or padded:find(word) then found[#found + 1] = file end
    end
  end
  return #found == 1 and found[1] or nil, all
end

local function the_gguf(files, part)
  local file, all = gguf(files, part)
  if file then return { files = { file }, main = file } end
  if #all == 0 then errors.raise("NOT_FOUND", "it has no .gguf file") end
  errors.fail("it has several .gguf files, and one is to be named behind a colon (ORG/NAME:FILE): ",
    table.concat(all, ", "))
end

local function adapter(has)
  local chosen, lacks = {}, {}
  if has["adapter_config.json"] then chosen[1] = "adapter_config.json" else
    lacks[1] = "adapter_config.json" end
  for _, name in ipairs(ADAPTERS) do
    if has[name] then
      chosen[#chosen + 1] = name
      return { files = chosen, lacks = lacks }
    end
  end
  lacks[#lacks + 1] = ADAPTERS[1]
  return { files = chosen, lacks = lacks }
end

-- Adds the companion files of a model to `chosen`, and returns whether a tokenizer is among them.
local function companions(files, has, chosen)
  for _, file in ipairs(files) do
    if not file:find "/" and native.is_companion(file) then chosen[#chosen + 1] = file end
  end
  for _, name in ipairs(TOKENIZERS) do
    if has[name] then return true end
  end
  return false
end

--- Selects the required files of a repository. `part` selects a .gguf file.
---@param want moonring.HubWant
---@param part? string
---@param files string[]
---@param read fun(file: string): string? contents of a file that is downloaded already, else nil
---@return moonring.HubChoice
function model_files.choose(want, part, files, read)
  local has, ggufs = {}, false
  for _, file in ipairs(files) do
    has[file] = true
    ggufs = ggufs or file:find "%.gguf$" ~= nil
  end
  if part then return the_gguf(files, part) end
  if want == "adapter" then return adapter(has) end
  if not has["config.json"] then
    if has["adapter_config.json"] then return adapter(has) end
    if ggufs then return the_gguf(files) end
  end
  local chosen, lacks, again = {}, {}, false
  if has["config.json"] then chosen[1] = "config.json" elseif want ~= "tokenizer" then
    lacks[1] = "config.json" end
  if want == "config" then return { files = chosen, lacks = lacks } end
  if not companions(files, has, chosen) then lacks[#lacks + 1] = "tokenizer" end
  if want == "model" then
    local found
    found, again = weights(has, read, chosen)
    if not found then lacks[#lacks + 1] = "weights" end
    if has["value_head.safetensors"] then chosen[#chosen + 1] = "value_head.safetensors" end
  end
  if #chosen == 0 then errors.raise("NOT_FOUND", "it has no ", table.concat(lacks, ", no ")) end
  return { files = chosen, lacks = lacks, again = again }
end

return model_files
