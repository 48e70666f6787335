--- moonring file_datasets.lua: for each data set below, compares the examples of its file, given by
-- its path, with those of the same file with an entry in dataset_info.json. Needs a folder model/.
local moonring = require "moonring"
local checks = require "moonring.run.checks"
local datasets = require "moonring.data.datasets"
local vocabulary = require "moonring.data.vocabulary"
local configured_template = require "moonring.data.configured_template"

local OPENAI = '"tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", '
  .. '"assistant_tag": "assistant", "system_tag": "system", "observation_tag": "tool"}'

-- Stage, file, its rows, the keys of its entry, and how it is read according to the note.
local CASES = {
  { "sft", "a.jsonl", [[
{"instruction": "What?", "input": "", "output": "The wind."}
{"instruction": "Who?", "input": "Now", "output": "I.", "system": "Be"}]],
    [["columns": {"prompt": "instruction", "query": "input", "response": "output",
      "system": "system"}]], "alpaca (columns instruction, input, output, system)" },
  { "sft", "chat.json", [==[[{"messages": [{"role": "system", "content": "Be"},
      {"role": "user", "content": "What?"}, {"role": "assistant", "content": "The wind."}]}]]==],
    [["formatting": "sharegpt", "columns": {"messages": "messages"}, ]] .. OPENAI,
    "sharegpt (columns messages)" },
  { "sft", "tools.json", [==[[{"messages": [{"role": "user", "content": "What?"},
      {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function":
        {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "content": "1"},
      {"role": "tool", "content": "2"}, {"role": "assistant", "content": "The wind."}]}]]==],
    [["formatting": "openai", "columns": {"messages": "messages"}, ]] .. OPENAI,
    "openai (columns messages)" },
  { "dpo", "sub/pairs.json", [==[[{"conversations": [{"from": "human", "value": "Which?"}],
      "chosen": {"from": "gpt", "value": "The wind."},
      "rejected": {"from": "gpt", "value": "A map."}}]]==],
    [["formatting": "sharegpt", "ranking": true, "columns": {"messages": "conversations",
      "chosen": "chosen", "rejected": "rejected"}]],
    "sharegpt (columns conversations, chosen, rejected)" },
  { "kto", "marked.jsonl", [[
{"prompt": "What?", "completion": "The wind.", "label": true}
{"prompt": "Who?", "completion": "A map.", "label": false}]],
    [["columns": {"prompt": "prompt", "response": "completion", "kto_tag": "label"}]],
    "alpaca (columns prompt, completion, label)" },
  { "pt", "texts.txt", "A document of one line.\nAnother.\n", [["columns": {"prompt": "text"}]],
    "alpaca (columns text)" },
}

-- The examples of a data set as text, and the notes about it.
local function examples(stage, name)
  local c = moonring.config.load(nil, { "model_name_or_path=model", "template=chatml",
    "packing=" .. (stage == "pt" and "false" or ""), "stage=" .. stage, "dataset=" .. name })
  checks.names(c)
  local files = moonring.model.open_tokenizer("model", c)
  datasets.load(c, vocabulary.tokenizer(c, files, configured_template.settle)):write("out.jsonl")
  return moonring.system.read "out.jsonl", table.concat(c.notes, "; ")
end

moonring.system.make_folder "data/sub"
for _, case in ipairs(CASES) do
  local stage, file, rows, entry, said = unpack(case)
  moonring.system.write("data/" .. file, rows)
  local guessed, notes = examples(stage, file)
  assert(notes == ("dataset: data/%s: no dataset_info.json describes it; read as %s"):format(file,
    said), notes)
  moonring.system.write("data/dataset_info.json",
    ('{"named": {"file_name": "%s", %s}}'):format(file, entry))
  assert(guessed == examples(stage, "named") and #guessed > 20, file .. ": " .. guessed)
  moonring.system.remove "data/dataset_info.json"
end
print(#CASES .. " data sets")
