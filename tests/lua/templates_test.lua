-- Chat templates: templates_test.lua SECTION GOLDEN_FOLDER SCRATCH_FOLDER. Raises one error that
-- lists all failures.
local section, golden, scratch = arg[1], arg[2], arg[3]
local moonring = require "moonring"
local jinja = require "moonring.data.jinja"
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

local STAGES = { pairs = "rm", judged = "kto" }

local function load_case(case)
  local null = system.null
  local thinking = case.enable_thinking
  if thinking == nil then thinking = true elseif thinking == null then thinking = nil end
  local template = configured_template.of { template = case.template,
    tool_format = case.tool_format, enable_thinking = thinking,
    preserve_thinking = case.preserve_thinking }
  template.date = "26 Jul 2024" -- the date of the golden file
  return moonring.data.load { names = { case.dataset }, dir = golden .. "/data",
    stage = STAGES[case.dataset] or "sft", template = template, tokenizer = tokenizer,
    cutoff_len = case.cutoff_len, mask_history = case.mask_history,
      default_system = case.default_system }
end

local sections = {}

-- Ids and labels equal LLaMA-Factory's in every case, and every template of LLaMA-Factory exists.
function sections.equal()
  local cases, seen = system.json_decode(system.read(golden .. "/cases.json")), {}
  for _, case in ipairs(cases) do
    seen[case.template] = true
    local told = system.json_encode(case)
    local done, dataset = pcall(load_case, case)
    if case.error then
      check(not done, told, ": is no error here")
    elseif not done then
      check(false, told, ": ", tostring(dataset))
    else
      check(dataset:size() == case.examples and dataset:digest() == case.digest, told, ": ",
        dataset:size(), " examples, digest ", dataset:digest())
    end
  end
  local names = {}
  for name in pairs(seen) do names[#names + 1] = name end
  table.sort(names)
  check(#names == 121, "the golden has ", #names, " templates")
  check(table.concat(names, " ") == table.concat(templates.names(), " "), "LLaMA-Factory has ",
    table.concat(names, " "), "; here are ", table.concat(templates.names(), " "))
end

local function prompt(template)
  return tokenizer:decode(moonring.data.template(template, tokenizer):encode_prompt { "Hi" })
end

-- User-defined templates: a table or a file; missing fields have LLaMA-Factory's defaults.
function sections.own()
  local function is(template, wanted)
    local got = prompt(template)
    check(got == wanted, "expected ", wanted, ", got ", got)
  end
  is({ user = "Q: {{content}} ({{idx}})\nA:" }, "Q: Hi (0)\nA:")
  is({ prefix = { { "bos" } }, user = { { token = "<|im_start|>" }, "{{content}}", { "eos" } } },
    "<|bos|><|im_start|>Hi<|eos|>")
  is({ like = "chatml", default_system = "S" },
    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
  is({ class = "system_in_user", default_system = "S", system = "<{{content}}>",
    user = "U {{content}}" }, "U <S>Hi")
  is({ class = "reasoning", enable_thinking = false, user = "{{content}}:",
    thought_words = { "<t>", "</t>" } }, "Hi:<t></t>")
  is({ class = "reasoning", user = "{{content}}:", thought_words = { "<t>", "</t>" } }, "Hi:")
  local path = scratch .. "/mine.lua"
  system.write(path, 'return { like = "chatml", default_system = "File." }')
  is(path, "<|im_start|>system\nFile.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
    .. "assistant\n")
  is({ like = path, default_system = "" }, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
    .. "assistant\n")
  check(tostring(moonring.data.template(path, tokenizer)) == "Template " .. path,
    "a file's template has its path's name")
  -- The template llama3 is recognized by its name.
  for name, wanted in pairs { mine = ("mine (%s)"):format(path), llama3 = "llama3" } do
    system.write(path, ('return { name = "%s", like = "llama3" }'):format(name))
    local got = tostring(moonring.data.template(path, tokenizer))
    check(got == "Template " .. wanted, "expected ", wanted, ", got ", got)
  end
end

-- The template if a configuration names none: parsed from the model's own template, or `empty`, or
-- an error that says what to do. Stage pt needs no template.
function sections.settled()
  local function settle(text, config, c)
    c.notes = {}
    local carried = { ["chat_template.jinja"] = text, ["tokenizer_config.json"] = config,
      ["tokenizer.json"] = files["tokenizer.json"] }
    configured_template.settle(c, { companion = function(_, name) return carried[name] end,
      path = function() return "model" end }, tokenizer)
    return c
  end
  local own = settle("{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}", nil,
    { stage = "sft" })
  check(configured_template.name(own) == "the model's chat_template"
    and own.notes[1] == "template: none is given: taken from the model's chat_template", "own: ",
    tostring(own.notes[1]))
  local got = tokenizer:decode(moonring.data.template(configured_template.of(own),
    tokenizer):encode_prompt({ "Hi" }, "S"))
  check(got == "<system>S</><user>Hi</>", "own: ", got)
  local named = settle("{% nonsense", nil, { stage = "sft", template = "qwen" })
  check(named.template == "qwen" and #named.notes == 0, "one that is named stays")
  for note, given in pairs { ["carries none"] = {},
    ["carries several"] = { nil, '{"chat_template": [{"name": "default", "template": "x"}]}' } } do
    local empty = settle(given[1], given[2], { stage = "dpo" })
    check(empty.template == "empty" and empty.notes[1]:find(note, 1, true), note, ": ",
      tostring(empty.notes[1]))
  end
  check(settle("{% nonsense", nil, { stage = "pt" }).template == "empty",
    "pt asks nothing of a template")
  local done, message = pcall(settle, "\n{{ raise_exception('Not today') }}", nil,
    { stage = "sft" })
  check(not done and tostring(message) == "INVALID_ARGUMENT: template: none is given, and the "
    .. "model's chat_template cannot be used: model/chat_template.jinja:2: Not today; name one: "
    .. "template: NAME", tostring(message))
end

-- Every template, written as Jinja into a model's files, renders the text that the template itself
-- encodes, with and without a system text, over two turns.
function sections.jinja()
  for _, name in ipairs(templates.names()) do
    local template = configured_template.of { template = name, enable_thinking = true,
      preserve_thinking = false }
    template.date = "26 Jul 2024"
    local named = moonring.data.template(template, tokenizer)
    local text = jinja.text(templates.find(template), named:tokenizer())
    local carried = { ["chat_template.jinja"] = text, ["tokenizer.json"] = files["tokenizer.json"] }
    local model = moonring.data.model_template({ companion = function(_,
      file) return carried[file] end, path = function() return "model" end }, named:tokenizer())
    for _, texts in ipairs { { "it's \"1\"?" }, { "a\nb", "{{ x }}'\\", "c" } } do
      for _, given in ipairs { false, "Be 'brief'.\n" } do
        local wanted = named:tokenizer():decode(named:encode_prompt(texts, given or nil))
        local got = named:tokenizer():decode(model:encode_prompt(texts, given or nil))
        check(got == wanted, name, ": expected ", wanted, ", got ", got)
      end
    end
  end
  check(jinja.text(templates.find { user = "{{idx}}: {{content}}" }, tokenizer) == nil,
    "turns' numbers cannot be said")
end

-- An error is one line and names the position.
function sections.errors()
  local function says(template, ...)
    local done, message = pcall(moonring.data.template, template, tokenizer)
    for _, part in ipairs { ... } do
      check(not done and tostring(message):find(part, 1, true), "expected ", part, ", got ", done
        and "no error" or tostring(message))
    end
  end
  says("qwen33", "NOT_FOUND: template: no 'qwen33' (did you mean 'qwen3'?); there are qwen, "
    .. "qwen2_audio, ", "moonring help templates lists all 121")
  says("xyzzy", "no 'xyzzy'; there are chatml, default, llama3, qwen and others: ")
  says(scratch .. "/none.lua", "NOT_FOUND: cannot read ")
  says({ like = "qwen", usr = "x" }, "INVALID_ARGUMENT: template: qwen: unknown field 'usr' (did "
    .. "you mean 'user'?)")
  says({ name = "mine", user = 3 }, "template: mine: user: expected a text or a list of slots, got "
    .. "a number")
  says({ name = "mine", user = { { 1 } } }, "mine: user: a slot is a text, ")
  says({ name = "mine", class = "resoning" }, "mine: class: expected plain | reasoning | "
    .. "system_in_user, got 'resoning' (did you mean 'reasoning'?)")
  says({ name = "mine", thought_words = { "a" } }, "mine: thought_words: expected two texts, got 1")
  says({ name = "mine", replace_eos = true }, "mine: replace_eos requires a stop word")
  says({ name = "mine", tool_format = "qwn" },
    "template 'mine': tool_format: no 'qwn' (did you mean 'qwen'?); there are default, gemma4, ")
  says({ name = "mine", user = { "{{content}}", { token = "<nope>" } } },
    "template 'mine': needs the token '<nope>', which the tokenizer lacks")
  local path = scratch .. "/broken.lua"
  system.write(path, 'return { like = "qwn" }')
  says(path, "NOT_FOUND: template: " .. path .. ": like: no 'qwn' (did you mean 'qwen'?)")
  for text, message in pairs { ["return {"] = "broken.lua:1: ", ["return 3"] = "broken.lua: "
    .. "expected a table, got a number", ["return { user = x.y }"] =
    "attempt to index global 'x'" } do
    system.write(path, text)
    says(path, message)
  end
  system.write(path, ('return { like = "%s" }'):format(path))
  says(path, "like goes round in a circle")
  -- An error names a file by its path, even if the template in it has a name.
  local said = { ["user = 3"] = "user: expected a text or a list of slots, got a number",
    ["user = { { 1 } }"] = "user: a slot is a text, ",
    ['class = "resoning"'] = "class: expected plain | reasoning | system_in_user, got 'resoning'",
      ["replace_eos = true"] = "replace_eos requires a stop word",
    ['class = "system_in_user", system = { { "bos" } }'] =
      "system: of class system_in_user one text is expected", ['like = "qwn"'] = "like: no 'qwn'",
    [('like = "%s"'):format(path)] = "like goes round in a circle" }
  for fields, message in pairs(said) do
    system.write(path, ('return { name = "mine", %s }'):format(fields))
    for _, template in ipairs { path, { like = path } } do
      says(template, ("template: %s: %s"):format(path, message))
    end
  end
  system.write(path, 'return { name = "mine", tool_format = "qwn" }') -- an error found in C++
  says(path, ("template 'mine (%s)': tool_format: no 'qwn'"):format(path))
end

sections[section]()
if #failures > 0 then
  error(#failures .. " differences\n" .. table.concat(failures, "\n", 1, math.min(#failures, 40)),
    0)
end
