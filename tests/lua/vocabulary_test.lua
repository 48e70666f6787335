-- Tokenizers with added tokens: vocabulary_test.lua SECTION GOLDEN_FOLDER. Raises one error that
-- lists all failures.
local section, golden = arg[1], arg[2]
local moonring = require "moonring"
local configured_template = require "moonring.data.configured_template"
local system, vocabulary = moonring.system, require("moonring.data.vocabulary")
local words = system.json_decode(system.read(golden .. "/added_tokens/cases.json"))

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

local function carrying(files)
  return { companion = function(_, name) return files[name] end,
    path = function() return golden end }
end

-- Returns the tokenizer files of a case, by name.
local function files_of(case)
  local files = {}
  for name, value in pairs(case.files) do files[name] = system.json_encode(value) end
  if case.tokenizer:find "%.model$" then
    files["tokenizer.model"] = system.read(("%s/tokenizer/tiny/%s"):format(golden, case.tokenizer))
    return files
  end
  local tiny = system.read(("%s/tokenizer/tiny/%s.tokenizer.json"):format(golden,
    (case.tokenizer:gsub("_pair$", ""))))
  if not case.tokenizer:find "_pair$" then
    files["tokenizer.json"] = tiny
    return files
  end
  local model, merges = system.json_decode(tiny).model, {}
  for i, merge in ipairs(model.merges) do
    merges[i] = type(merge) == "table" and table.concat(merge, " ") or merge
  end
  files["vocab.json"], files["merges.txt"] = system.json_encode(model.vocab), "#version: 0.2\n"
    .. table.concat(merges, "\n") .. "\n"
  return files
end

local function configuration(keys)
  local list = {}
  for name, value in pairs(keys) do list[#list + 1] = name .. "=" .. tostring(value) end
  return moonring.config.load(nil, list)
end

local function equal(case, what, got, wanted)
  local told = function(value) return system.json_encode({ value }) end
  check(told(got) == told(wanted), told(case.keys), " on ", case.tokenizer, ": ", what,
    ": expected ", told(wanted), ", got ", told(got))
end

local sections = {}

-- Ids equal LLaMA-Factory's in every case.
function sections.equal()
  check(#words.cases > 40, "the golden has ", #words.cases, " cases")
  for _, case in ipairs(words.cases) do
    local c = configuration(case.keys)
    local tokenizer = vocabulary.tokenizer(c, carrying(files_of(case)))
    local template = moonring.data.template(configured_template.of(c), tokenizer)
    equal(case, "length", tokenizer:vocab_size(), case.length)
    equal(case, "resize_vocab", c.resize_vocab, case.resize_vocab)
    equal(case, "eos", template:eos(), case.eos)
    local stops = template:stop_ids()
    table.sort(stops)
    equal(case, "stop_ids", stops, case.stop_ids)
    for token, id in pairs(case.added) do equal(case, token, tokenizer:token_of(id), token) end
    for i, text in ipairs(words.texts) do
      equal(case, text, tokenizer:encode(text), case.ids[i])
      equal(case, "decoded " .. text, tokenizer:decode(case.ids[i], true), case.decoded[i])
    end
    equal(case, "prompt", template:encode_prompt({ words.texts[2] }, "Be brief."), case.prompt)
  end
end

-- The files that are written after adding tokens give the same tokenizer, without the keys that
-- added them.
function sections.files()
  for _, case in ipairs(words.cases) do
    local files = files_of(case)
    local tokenizer = vocabulary.tokenizer(configuration(case.keys), carrying(files))
    local changed = moonring.data.changed_files(carrying(files), tokenizer)
    check(next(changed) or (#tokenizer:added_ids() == 0 and not tokenizer:new_eos()),
      system.json_encode(case.keys), ": tokens were added and no file changes")
    for name, contents in pairs(changed) do files[name] = contents end
    local again = moonring.data.tokenizer(carrying(files),
      { split_special_tokens = case.keys.split_special_tokens })
    equal(case, "length again", again:vocab_size(), case.length)
    equal(case, "eos again", moonring.data.template("default", again):eos(), case.eos)
    for i, text in ipairs(words.texts) do
      equal(case, text .. " again", again:encode(text), case.ids[i])
      equal(case, "decoded again " .. text, again:decode(case.ids[i], true), case.decoded[i])
    end
    local same = { template = case.keys.template,
      split_special_tokens = case.keys.split_special_tokens }
    local unchanged = moonring.data.changed_files(carrying(files),
      vocabulary.tokenizer(configuration(same), carrying(files)))
    check(next(unchanged) == nil, system.json_encode(case.keys), " on ", case.tokenizer,
      ": the same template changes files a second time")
  end
end

sections[section]()
if #failures > 0 then
  error(#failures .. " differences:\n" .. table.concat(failures, "\n", 1, math.min(#failures, 20)),
    0)
end
