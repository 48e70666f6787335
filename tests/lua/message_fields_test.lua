-- Fields of messages in addition to the text (reasoning, tool calls), by template:
-- message_fields_test.lua SECTION GOLDEN_FOLDER SCRATCH_FOLDER. Raises one error that lists all
-- failures.
local section, golden, scratch = arg[1], arg[2], arg[3]
local moonring = require "moonring"
local configured_template = require "moonring.data.configured_template"
local system, templates = moonring.system, require("moonring.data.templates")

local failures = {}
local function check(condition, ...)
  if not condition then failures[#failures + 1] = table.concat({ ... }) end
end

-- A tokenizer from the files of a checkpoint.
local files = { ["tokenizer.json"] = system.read(golden .. "/tokenizer.json"),
  ["tokenizer_config.json"] = '{"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": '
    .. '"<|endoftext|>"}' }
local tokenizer = moonring.data.tokenizer { companion = function(_, name) return files[name] end,
  path = function() return golden end }

local TAGS = [["tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
  "assistant_tag": "assistant", "observation_tag": "tool", "function_tag": "function_call",
  "system_tag": "system"}]]

-- Loads rows (JSON texts) as a data set, with a template and further options of moonring.data.load.
local function load(rows, template, formatting, more)
  system.write(scratch .. "/rows.jsonl", table.concat(rows, "\n"))
  system.write(scratch .. "/dataset_info.json", ([[{"d": {"file_name": "rows.jsonl",
    "formatting": "%s", "columns": {"messages": "messages"}, %s}}]]):format(formatting, TAGS))
  local options = { names = { "d" }, dir = scratch, stage = "sft", template = template,
    tokenizer = tokenizer }
  for name, value in pairs(more or {}) do options[name] = value end
  return moonring.data.load(options)
end

local function learnt(dataset)
  local ids = {}
  for _, label in ipairs(dataset:example(0)[1].labels) do
    if label >= 0 then ids[#ids + 1] = label end
  end
  return tokenizer:decode(ids)
end

local sections = {}

-- The text equals that of the models' own chat templates, in either row format.
function sections.equal()
  for _, case in ipairs(system.json_decode(system.read(golden .. "/fields.json"))) do
    for _, formatting in ipairs { "openai", "sharegpt" } do
      local got = learnt(load({ case.row }, { like = case.template }, formatting))
      local tail = got:sub(#case.answer + 1)
      check(got:sub(1, #case.answer) == case.answer and #tail < 12 and not tail:find "[%w] ",
        case.template, ", ", case.name, ", ", formatting, ": expected ", case.answer, ", got ", got)
    end
  end
  -- White space is treated as in the models' templates: Seed's trims reasoning and adds a line
  -- feed, MiniMax's does neither.
  local row = [[{"messages": [{"role": "user", "content": "q"}, {"role": "assistant",
    "content": "a", "reasoning_content": " why\n"}]}]]
  for template, wanted in pairs { seed_oss = "<seed:think>why</seed:think>\na<|eos|>",
    minimax2 = "<think>\n why\n\n</think>\n\na[e~[\n" } do
    local got = learnt(load({ (row:gsub("\n *", " ")) }, { like = template }, "openai"))
    check(got == wanted, template, ": expected ", wanted, ", got ", got)
  end
end

local TURNS = {
  { "one", "two\nthree", "four" }, { "a", "", "no thought" }, { "b", " c ", "" },
  { "last", "why", "end" },
}

-- Returns a conversation with reasoning either in a separate field or in the text between two
-- markers.
local function conversation(words)
  local messages = {}
  for i, turn in ipairs(TURNS) do
    local answer = { role = "assistant", content = turn[3] }
    if not words then
      answer[i % 2 == 0 and "thinking" or "reasoning_content"] = turn[2]
    elseif turn[2] ~= "" then
      answer.content = words[1] .. turn[2] .. words[2] .. turn[3]
    end
    messages[#messages + 1] = { role = "user", content = turn[1] }
    messages[#messages + 1] = answer
  end
  return system.json_encode { messages = messages }
end

-- Reasoning in a field gives the same ids as reasoning in the text, in every turn and with every
-- key about reasoning; the latter equals LLaMA-Factory's (templates_test). For templates that write
-- both between the same markers.
function sections.inline()
  local compared = 0
  for _, name in ipairs(templates.names()) do
    local t = templates.find(name)
    if t.class == "reasoning" and t.written_begin == t.thought_begin and t.before_text == ""
      and t.written_end == t.thought_end and t.thought_trim ~= "spaces" then
      compared = compared + 1
      local rows = { conversation(nil), conversation { t.thought_begin, t.thought_end } }
      for _, thinking in ipairs { true, false, system.null } do
        for _, keys in ipairs { {}, { mask_history = true }, { one_turn = true } } do
          for _, preserve in ipairs { false, true } do
            local template = { like = name, enable_thinking = thinking,
              preserve_thinking = preserve }
            local field, inline = load({ rows[1] }, template, "openai", keys),
              load({ rows[2] }, template, "openai", keys)
            check(field:digest() == inline:digest(), name, ": other ids than in the text")
          end
        end
      end
    end
  end
  check(compared >= 10, "only ", compared, " templates")
end

-- A tool call gives the same ids if its arguments are an object, its JSON text, or that text as a
-- JSON string, in every tool format. Missing arguments are {}.
function sections.arguments()
  local row = [[{"messages": [{"role": "user", "content": "w"}, {"role": "assistant", "content": "",
    "tool_calls": [{"function": {"name": "f"%s}}]}, {"role": "tool", "content": "3"},
    {"role": "assistant", "content": "ok"}]}]]
  local function digest(template, arguments)
    local text = row:gsub("\n *", " "):format(arguments and ', "arguments": ' .. arguments or "")
    return load({ text }, template, "openai"):digest()
  end
  local object = '{"x": 1, "y": {"z": [true, null, "ü"]}}'
  local text = system.json_encode(object)
  for _, format in ipairs { "default", "gemma4", "glm4", "glm4_moe", "lfm2", "ling", "llama3",
    "minimax1", "minimax2", "mistral", "qwen", "qwen3_5", "seed_oss" } do
    local template = { like = "qwen", tool_format = format }
    local wanted, empty = digest(template, object), digest(template, "{}")
    check(digest(template, text) == wanted, format, ": the text gives other ids")
    check(digest(template, system.json_encode(text)) == wanted, format, ": twice a text")
    check(wanted ~= empty, format, ": arguments are lost")
    for _, none in ipairs { '"{}"', '""', '" "', "null" } do
      check(digest(template, none) == empty, format, ": ", none)
    end
    check(digest(template, nil) == empty, format, ": no arguments at all")
  end
  for _, bad in ipairs { '"{x: 1}"', '"Rome"', '"{\\"x\\": "' } do
    local done, why = pcall(digest, { like = "qwen" }, bad)
    check(not done and tostring(why):find("rows.jsonl:1 (row 1): message 1: a function call: the "
      .. "arguments of the call 'f' are a text that must be JSON", 1, true), bad, ": ",
      tostring(why))
  end
end

-- The template in a model's files writes reasoning itself, also empty reasoning if there is none.
function sections.carried()
  local function thought(jinja, answer)
    local carried = { ["chat_template.jinja"] = jinja,
      ["tokenizer.json"] = files["tokenizer.json"] }
    local c = { stage = "sft", notes = {} }
    configured_template.settle(c, { companion = function(_, name) return carried[name] end,
      path = function() return "model" end }, tokenizer)
    local row = [[{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content":
      "A", %s}]}]]
    c.enable_thinking = true
    return learnt(load({ (row:gsub("\n *", " "):format(answer)) },
      configured_template.of(c), "sharegpt"))
  end
  local start, finish = "{%- for m in messages -%}<{{ m.role }}>", "{{ m.content }}</>"
    .. "{%- endfor -%}{%- if add_generation_prompt -%}<assistant>{%- endif -%}"
  local writes = start .. "{%- if m.reasoning_content -%}<T>{{ m.reasoning_content | trim }}</T>\n"
    .. "{% endif -%}" .. finish
  check(thought(writes, '"reasoning_content": " why "') == "<T>why</T>\nA</>", "writes: ",
    thought(writes, '"reasoning_content": " why "'))
  check(thought(writes, '"weight": 1') == "A</>", "none: ", thought(writes, '"weight": 1'))
  check(thought(start .. finish, '"thinking": "why"') == "A</>", "it has none: ",
    thought(start .. finish, '"thinking": "why"'))
  local always = start .. "{%- if m.role == 'assistant' -%}<think>{{ m.thinking }}</think>"
    .. "{%- endif -%}" .. finish
  check(thought(always, '"thinking": "\\nwhy"') == "<think>\nwhy</think>A</>", "always: ",
    thought(always, '"thinking": "\\nwhy"'))
end

sections[section]()
if #failures > 0 then
  error(#failures .. " differences\n" .. table.concat(failures, "\n", 1, math.min(#failures, 40)),
    0)
end
