--- Tests of OpenAI's routes over a tiny model, one section each: arg[1] names it; arg[2] is the
-- model's folder, arg[3] a temporary one.
local autograd = require "moonring.native.autograd"
local comm = require "moonring.native.comm"
local data = require "moonring.native.data"
local field_rows = require "moonring.serve.openai.field_rows"
local openai_service = dofile(arg[0]:gsub("[^/]+$", "openai_service.lua"))
local ops = require("moonring.native.operators").ops
local prompts = require "moonring.serve.openai.prompts"
local request_fields = require "moonring.serve.openai.request_fields"
local system = require "moonring.native.system"
local token_texts = require "moonring.serve.openai.token_texts"

local TEMPLATE = "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>"
  .. "{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}"
  .. "{% for c in m.tool_calls %}<call>{{ c.function.name }}"
  .. "{{ c.function.arguments.items() | list }}</call>"
  .. "{% endfor %}{% endif %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
  .. "{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
  .. "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}"

-- A folder with the model, and a chat template of its own.
local function model_folder()
  local folder = arg[3] .. "/model"
  system.make_folder(folder)
  for _, name in ipairs(system.list(arg[2])) do
    if not system.is_folder(arg[2] .. "/" .. name) then
      local from = assert(io.open(arg[2] .. "/" .. name, "rb"))
      local to = assert(io.open(folder .. "/" .. name, "wb"))
      to:write(from:read "*a")
      from:close()
      to:close()
    end
  end
  local file = assert(io.open(folder .. "/chat_template.jinja", "wb"))
  file:write(TEMPLATE)
  file:close()
  return folder
end

local service, NAME
local function open()
  service = openai_service.open { "model_name_or_path=" .. model_folder(), "output_dir=" .. arg[3],
    "use_cpu=true" }
  NAME = service.bases.list[1].name
end

local function equal(a, b, what)
  local x, y = system.json_encode { a }, system.json_encode { b }
  assert(x == y, ("%s: %s is not %s"):format(what or "", x, y))
end

local function contains(text, part)
  assert(text:find(part, 1, true), ("'%s' is not in: %s"):format(part, text))
end

local function complete(fields, seed)
  local body = { model = NAME, temperature = 0, max_tokens = 6 }
  for name, value in pairs(fields) do body[name] = value end
  return service:ask("completions", body, seed)
end

local function texts(reply)
  local list = {}
  for i, choice in ipairs(reply.choices) do
    assert(choice.index == i - 1)
    list[i] = choice.text
  end
  return list
end

-- The message and the field of a refusal.
local function refused(route, body, status)
  local reply, whole = service:ask(route, body)
  assert(whole.status == (status or 400), whole.status .. " " .. whole.body)
  assert(reply.error.type == "invalid_request_error", whole.body)
  return reply.error.message, reply.error.param
end

-- log_softmax of the model's logits, from its forward and PyTorch's operators: [T, V].
local function reference(ids)
  local base = service.bases:open(NAME)
  local cut = { service.attention:cut(comm.sequence { documents = { ids } }) }
  return autograd.no_grad(function()
    local hidden = base.model:forward(cut[1], cut[2], cut[4])
    local weight = base.model:head():weight()
    return ops.log_softmax(hidden:matmul(weight:weight():t()):to "fp64", -1)
  end)
end

local sections = {}

function sections.fields()
  local rows = {
    { "name", "text", request_fields.REQUIRED, "the name" },
    { "share", "number", 0.5, "a share", above = 0, most = 1 },
    { "count", "integer", system.null, "a count", least = 2, most = 3 },
    { "list", "texts", {}, "texts", most = 2 },
    { "bias", "any", {}, "", only = { {}, "none" }, refused = "because" },
  }
  equal(request_fields.read({ name = "x", count = system.null }, rows),
    { name = "x", share = 0.5, list = {}, bias = {} })
  equal(request_fields.read({ name = "x", share = 1, count = 2, list = "a", bias = "none" }, rows),
    { name = "x", share = 1, count = 2, list = "a", bias = "none" })
  for _, case in ipairs {
    { {}, "name: required: the name" },
    { { "x" }, "body: expected an object, got a list" },
    { { name = 1 }, "name: expected a text, got 1" },
    { { name = "x", share = 0 }, "share: expected a number above 0 and at most 1, got 0" },
    { { name = "x", share = "1" }, "share: expected a number, got '1'" },
    { { name = "x", count = 4 }, "count: expected a whole number from 2 to 3, got 4" },
    { { name = "x", count = 2.5 }, "count: expected a whole number, got 2.5" },
    { { name = "x", list = { "a", 1 } }, "list: expected a text or a list of texts, got a list" },
    { { name = "x", list = { "a", "b", "c" } },
      "list: expected a text or a list of texts, at most 2, got 3" },
    { { name = "x", bias = { a = 1 } },
      "bias: an object is not supported: because; leave it out or give [], \"none\"" },
    { { name = "x", conut = 2 },
      "conut: no such field (did you mean 'count'?); fields: name, share, count, list, bias" },
  } do
    local ok, why = pcall(request_fields.read, case[1], rows)
    assert(not ok)
    equal(why.message, case[2])
  end
  for route, list in pairs(field_rows) do
    local seen = {}
    for _, row in ipairs(list) do
      assert(not seen[row[1]], route .. ": " .. row[1] .. " is there twice")
      seen[row[1]] = true
      local says = row[4] ~= "" or row.only or row.idle
      assert(says, route .. ": " .. row[1] .. " has no meaning")
    end
  end
end

-- Texts and ids, one and several, give the same answers.
function sections.prompts()
  open()
  local tokenizer = service.bases:open(NAME).tokenizer
  local first, second = "The moon", "Rings of ice"
  local a, b = tokenizer:encode(first), tokenizer:encode(second)
  local of_first = texts(complete { prompt = first })
  equal(texts(complete { prompt = a }), of_first)
  equal(texts(complete { prompt = { first } }), of_first)
  equal(texts(complete { prompt = { a } }), of_first)
  local of_second = texts(complete { prompt = second })
  equal(texts(complete { prompt = { first, second } }), { of_first[1], of_second[1] })
  local both = complete { prompt = { a, b }, n = 1 }
  equal(texts(both), { of_first[1], of_second[1] })
  equal(both.usage, { prompt_tokens = #a + #b, completion_tokens = 12,
    total_tokens = #a + #b + 12 })
  equal(texts(complete { prompt = first, echo = true }), { first .. of_first[1] })
  equal(texts(complete { prompt = a, echo = true }), { first .. of_first[1] })
  equal(texts(complete { prompt = first, echo = true, max_tokens = 0 }), { first })
  for _, prompt in ipairs { {}, { 1, "x" }, { { 1 }, "x" }, { { "x" } }, 5, { a = 1 }, true } do
    local _, field = refused("completions", { model = NAME, prompt = prompt })
    equal(field, "prompt")
  end
  contains(refused("completions", { model = NAME, prompt = "" }), "at least one")
  contains(refused("completions", { model = NAME, prompt = { 10 ^ 7 } }), "token 0 is 1")
end

-- Log-probs of an echoed prompt and of new tokens are those of log_softmax, as lm-eval reads them.
function sections.log_probs()
  open()
  local tokenizer = service.bases:open(NAME).tokenizer
  local ids = tokenizer:encode "The moon has rings of ice and dust"
  local reply = complete { prompt = { ids }, echo = true, logprobs = 3, max_tokens = 1 }
  local list = reply.choices[1].logprobs
  local all = { unpack(ids) }
  local new = tokenizer:encode(reply.choices[1].text)
  assert(#list.tokens == #ids + 1 and #list.top_logprobs == #ids + 1)
  local rows = reference(ids)
  local greedy = rows:select(0, #ids - 1):argmax():item()
  all[#all + 1] = greedy
  assert(list.token_logprobs[1] == system.null and list.top_logprobs[1] == system.null)
  local offset = 0
  for t = 1, #all do
    local bytes = tokenizer:token_bytes(all[t])
    local text = token_texts.shown(bytes)
    equal(list.tokens[t], text)
    equal(list.text_offset[t], offset)
    offset = offset + #bytes -- the prompt is ASCII
    if t > 1 then
      local row = rows:select(0, t - 2)
      local expected = row:select(0, all[t]):item()
      local got, largest = list.token_logprobs[t], -math.huge
      assert(math.abs(got - expected) < 2e-5, ("token %d: %g, not %g"):format(t, got, expected))
      local count = 0
      for _, value in pairs(list.top_logprobs[t]) do
        largest, count = math.max(largest, value), count + 1
      end
      assert(count == 3 or count == 4)
      assert(list.top_logprobs[t][text] == got, "the token itself is missing")
      assert(math.abs(largest - row:max():item()) < 2e-5)
      assert((got == largest) == (row:argmax():item() == all[t]), "greedy or not")
    end
  end
  assert(list.token_logprobs[#all] == math.max(unpack((function()
    local values = {}
    for _, value in pairs(list.top_logprobs[#all]) do values[#values + 1] = value end
    return values
  end)())), "the new token is the likeliest")
  equal(reply.choices[1].text, tokenizer:decode(all))
  assert(#new > 0)
  local none = complete { prompt = { ids }, echo = true, logprobs = 0, max_tokens = 0 }
  equal(none.choices[1].logprobs.token_logprobs, { unpack(list.token_logprobs, 1, #ids) })
  -- generated without echo: the same numbers up to the order of additions
  local plain = complete { prompt = { ids }, logprobs = 1, max_tokens = 2 }
  assert(math.abs(plain.choices[1].logprobs.token_logprobs[1] - list.token_logprobs[#all]) < 2e-5)
  equal(plain.choices[1].logprobs.text_offset[1], 0)
end

-- Answers do not depend on what runs beside them; seeds and n.
function sections.together()
  open()
  local function body(prompt, seed)
    return { model = NAME, prompt = prompt, temperature = 1, max_tokens = 8, seed = seed, n = 2 }
  end
  local alone = texts(service:ask("completions", body("The moon", 5)))
  assert(alone[1] ~= alone[2], "two answers are the same")
  equal(texts(service:ask("completions", body("The moon", 5), 99)), alone)
  local fresh = texts(service:ask("completions", body("The moon", nil), 1))
  assert(fresh[1] ~= texts(service:ask("completions", body("The moon", nil), 2))[1])
  service.door.arriving = { service:job("completions", body("Later", 5)) }
  local later = service.door.arriving[1].id
  local replies = service:run { service:job("completions", body("Rings", 6)),
    service:job("completions", { model = NAME, prompt = "x", temprature = 1 }),
    service:job("completions", body("The moon", 5)),
    service:job("chat_completions", { model = NAME, messages = { { role = "user",
      content = "Hi" } }, max_tokens = 4 }) }
  equal(texts(replies[3].json), alone)
  assert(replies[2].status == 400 and replies[4].status == 200)
  equal(texts(system.json_decode(service.door.replies[later].body)),
    texts(service:ask("completions", body("Later", 5))))
  local same = texts(service:ask("completions", body({ "a", "a" }, nil)))
  assert(same[1] ~= same[3], "equal prompts have equal answers")
end

-- An answer's text by pieces: incomplete characters and possible stop texts wait.
function sections.pieces()
  local function run(pieces, stops, keeps)
    local text = token_texts.answer(nil, { stop = stops or {}, skip_special_tokens = true,
      include_stop_str_in_output = keeps or false })
    local sent = {}
    for i, piece in ipairs(pieces) do sent[i] = text:push(piece, false) end
    sent[#sent + 1] = text:finish()
    equal(table.concat(sent), text:text())
    return sent, text
  end
  equal(run { "a\226", "\130", "\172b" }, { "a", "", "€b", "" })
  equal(run { "\240\159", "\152\128" }, { "", "😀", "" })
  equal(run { "a\226", "b" }, { "a", "\239\191\189b", "" })
  equal(run { "a\226\130" }, { "a", "\239\191\189" })
  equal(run { "\255a" }, { "\239\191\189a", "" })
  equal(run({ "one ST", "OP two" }, "STOP"), { "one ", "", "" })
  equal(run({ "one ST", "OP two" }, "STOP", true), { "one ", "STOP", "" })
  equal(run({ "one S", "T", "ART" }, "STOP"), { "one ", "", "START", "" })
  equal(run({ "SS", "TOP" }, { "STOP" }), { "S", "", "" })
  equal(run({ "abab", "abac", "x" }, { "abac" }), { "ab", "ab", "", "" })
  equal(run({ "one S" }, { "STOP" }), { "one ", "S" })
  equal(run({ "x\n\ny" }, { "\n\n", "\n" }), { "x", "" })
  equal(run({ "€", "ab" }, { "€a" }), { "", "", "" })
  local _, text = run({ "x" }, { "y" })
  assert(not text.stopped)
  equal(token_texts.shown "€", "€")
  equal(token_texts.shown "\226\130", "bytes:\\xe2\\x82")
  equal(token_texts.characters "a€😀", 3)
  -- every cut of a text gives the same text
  local whole = "añ€😀 STO end STOP rest"
  for cut = 1, #whole - 1 do
    local sent = run({ whole:sub(1, cut), whole:sub(cut + 1) }, { "STOP", "€x" })
    equal(table.concat(sent), "añ€😀 STO end ")
  end
  for _, case in ipairs { "\226\130", "a", "", "\240\159\152", "\194", "\226\130\172" } do
    local shown, rest = data.whole_characters(case)
    assert(#shown + #rest == #case)
  end
end

-- Streamed pieces make the text of the same request without `stream`.
function sections.streams()
  open()
  local whole = complete { prompt = { "The moon", "Rings" }, n = 2, temperature = 1, seed = 3,
    max_tokens = 12, logprobs = 1 }
  local parts, reply = complete { prompt = { "The moon", "Rings" }, n = 2, temperature = 1,
    seed = 3, max_tokens = 12, logprobs = 1, stream = true,
    stream_options = { include_usage = true } }
  assert(reply.type:find "^text/event%-stream" and reply.finished)
  equal(parts[#parts], "[DONE]")
  equal(parts[#parts - 1].usage, whole.usage)
  equal(parts[#parts - 1].choices, {})
  local made, tokens, reasons = {}, {}, {}
  for i = 1, #parts - 2 do
    local choice = parts[i].choices[1]
    local index = choice.index + 1
    assert(parts[i].usage == system.null and parts[i].object == "text_completion")
    assert(not reasons[index], "a part after the last one")
    made[index] = (made[index] or "") .. choice.text
    tokens[index] = tokens[index] or { tokens = {}, text_offset = {}, token_logprobs = {} }
    for name, list in pairs(tokens[index]) do
      for _, each in ipairs(choice.logprobs ~= system.null and choice.logprobs[name] or {}) do
        list[#list + 1] = each
      end
    end
    reasons[index] = choice.finish_reason ~= system.null and choice.finish_reason or nil
  end
  equal(made, texts(whole))
  for i, choice in ipairs(whole.choices) do
    equal(reasons[i], choice.finish_reason)
    for name, list in pairs(tokens[i]) do equal(list, choice.logprobs[name], name) end
  end
  local echoed = complete { prompt = "The moon", echo = true, logprobs = 1, stream = true }
  local unstreamed = complete { prompt = "The moon", echo = true, logprobs = 1 }
  equal(echoed[1].choices[1], unstreamed.choices[1])
  local chat = service:ask("chat_completions", { model = NAME, stream = true, max_tokens = 5,
    messages = { { role = "user", content = "Hi" } }, temperature = 0 })
  equal(chat[1].choices[1].delta, { role = "assistant", content = "" })
  equal(chat[#chat], "[DONE]")
  assert(chat[2].usage == nil and chat[2].object == "chat.completion.chunk")
  -- a client that leaves after three parts
  local job = service:job("completions", { model = NAME, prompt = "The moon", stream = true,
    max_tokens = 400, ignore_eos = true })
  service.door.patience[job.id] = 3
  service:run { job }
  assert(#service.door.replies[job.id].parts < 10, #service.door.replies[job.id].parts)
end

-- A stop text cuts the answer before it, wherever tokens end; reasons; end tokens.
function sections.stops()
  open()
  local base = service.bases:open(NAME)
  local free = complete { prompt = "The moon", max_tokens = 12, ignore_eos = true }
  local text = free.choices[1].text
  equal(free.choices[1].finish_reason, "length")
  for from = 2, #text - 3, 3 do
    local stop = text:sub(from, from + 2)
    if not stop:find "[\128-\255]" then
      local cut = complete { prompt = "The moon", max_tokens = 12, ignore_eos = true, stop = stop }
      local at = text:find(stop, 1, true)
      equal(cut.choices[1].text, text:sub(1, at - 1), "stop '" .. stop .. "'")
      equal(cut.choices[1].finish_reason, "stop")
      assert(cut.usage.completion_tokens <= 12)
      local kept = complete { prompt = "The moon", max_tokens = 12, ignore_eos = true,
        stop = { "never there", stop }, include_stop_str_in_output = true }
      equal(kept.choices[1].text, text:sub(1, at + 2))
    end
  end
  local ids = base.tokenizer:encode("The moon" .. text)
  local third = ids[#base.tokenizer:encode "The moon" + 3]
  local by_id = complete { prompt = "The moon", max_tokens = 12, ignore_eos = true,
    stop_token_ids = { third } }
  equal(by_id.choices[1].finish_reason, "stop")
  local _, field = refused("completions", { model = NAME, prompt = "x", stop = { "a", "" } })
  equal(field, "stop")
  contains(refused("completions", { model = NAME, prompt = "x", stop = {} , max_tokens = -1 }),
    "max_tokens: expected a whole number at least 0, got -1")
end

function sections.refusals()
  open()
  local function case(fields, field, part, status)
    local body = { model = NAME, prompt = "x" }
    for name, value in pairs(fields) do body[name] = value end
    local message, param = refused("completions", body, status)
    equal(param, field)
    contains(message, part)
  end
  case({ temperature = "hot" }, "temperature", "expected a number, got 'hot'")
  case({ logit_bias = { ["5"] = 1 } }, "logit_bias", "is not supported")
  case({ presence_penalty = 0.5 }, "presence_penalty", "use repetition_penalty")
  case({ suffix = "end" }, "suffix", "is not supported")
  case({ best_of = 3 }, "best_of", "expected n, which is 1")
  case({ max_tokens = 0 }, "max_tokens", "or echo with 0")
  case({ logprobs = 21 }, "logprobs", "from 0 to 20")
  case({ n = 0 }, "n", "from 1 to 128")
  case({ stream_options = { include_usgae = true } }, "stream_options", "no such field")
  case({ model = "modle" }, "model", "did you mean 'model'", 404)
  local no_such = service:ask("completions", { model = "modle", prompt = "x" })
  equal(no_such.error.code, "model_not_found")
  equal(complete({ prompt = "x", suffix = "", logit_bias = {}, presence_penalty = 0, user = "me",
    best_of = 1 }).object, "text_completion")
  contains(refused("completions", "[1]"), "expected")
  contains(refused("completions", "{"), "not valid JSON")
  contains(refused("completions", { prompt = "x" }), "GET /v1/models")
end

function sections.chat()
  open()
  local tokenizer = service.bases:open(NAME).tokenizer
  local function prompt(body) -- the text that the template makes
    local all = '{"model": "' .. NAME .. '", ' .. body .. "}"
    local result = service:call("tokenize", (all:gsub('"max_tokens": 1, ', "")))
    return result.error or tokenizer:decode(result.tokens)
  end
  equal(prompt '"messages": [{"role": "user", "content": "Hi"}]', "[user]Hi[assistant]")
  equal(prompt [["messages": [{"role": "developer", "content": "Be kind"}, {"role": "user",
    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "hm",
    "tool_calls": [{"id": "1", "type": "function",
    "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]}, {"role": "tool",
    "tool_call_id": "1", "content": "r"}] ]],
    "[system]Be kind[user]a\nb[assistant]<call>f[('z', 1), ('a', 2)]</call><think>hm</think>"
      .. "[tool]r[assistant]")
  -- a tool's keys keep their order
  equal(prompt [["messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function",
    "function": {"name": "f", "description": "d", "b": 1, "a": {"y": 1, "x": 2.0}}}] ]],
    '<tools>{"type": "function", "function": {"name": "f", "description": "d", "b": 1, "a": '
      .. '{"y": 1, "x": 2.0}}}</tools>[user]Hi[assistant]')
  equal(prompt [["messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs":
    {"enable_thinking": false}]], "[user]Hi[assistant]False")
  equal(prompt [["messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": false]],
    "[user]Hi")
  equal(prompt [["messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content":
    "Well, "}], "continue_final_message": true]], "[user]Hi[assistant]Well, ")
  local function wrong(body, part)
    local result = service:call("tokenize", '{"model": "' .. NAME .. '", ' .. body .. "}")
    contains(result.error.message, part)
  end
  wrong('"messages": []', "messages: expected a list of at least one message")
  wrong('"messages": [{"role": "usr", "content": "x"}]',
    "messages[0].role: expected system, developer")
  wrong('"messages": [{"role": "user", "content": "x", "nmae": "y"}]', "did you mean 'name'")
  wrong('"messages": [{"role": "user", "content": [{"type": "image_url"}]}]',
    "messages[0].content[0].type: parts of the type 'image_url' are not supported")
  wrong('"messages": [{"role": "user", "content": null}]', "messages[0].content: expected a text")
  wrong('"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '
    .. '"x"}}]}]', "messages[0].tool_calls[0].function.arguments")
  wrong('"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "code"}]',
    "tools[0].type")
  local reply = service:ask("chat_completions", { model = NAME, messages = { { role = "user",
    content = "Hi" } }, max_completion_tokens = 5, temperature = 0, logprobs = true,
    top_logprobs = 2 })
  local choice = reply.choices[1]
  local same = complete { prompt = "[user]Hi[assistant]", max_tokens = 5, logprobs = 2 }
  equal(choice.message, { role = "assistant", content = same.choices[1].text,
    refusal = system.null })
  equal(reply.usage, same.usage)
  assert(reply.object == "chat.completion" and #choice.logprobs.content == 5)
  for t, each in ipairs(choice.logprobs.content) do
    equal(each.logprob, same.choices[1].logprobs.token_logprobs[t])
    equal(string.char(unpack(each.bytes)), tokenizer:decode({ tokenizer:encode(each.token)[1] }))
    assert(#each.top_logprobs == 2 and each.top_logprobs[1].logprob == each.logprob)
  end
  for field, value in pairs { response_format = { type = "json_object" }, tool_choice = "required",
    functions = { { name = "f" } }, max_tokens = 3 } do
    local body = { model = NAME, messages = { { role = "user", content = "Hi" } },
      max_completion_tokens = 5 }
    body[field] = value
    local _, param = refused("chat_completions", body)
    equal(param, field)
  end
end

function sections.tokens()
  open()
  local tokenizer = service.bases:open(NAME).tokenizer
  local text = "The moon, añ €"
  local result = service:call("tokenize", { prompt = text, add_special_tokens = false,
    return_token_strs = true })
  equal(result.tokens, tokenizer:encode(text))
  equal(result.count, #result.tokens)
  equal(service:call("detokenize", { tokens = result.tokens }).prompt, text)
  contains(service:call("detokenize", { tokens = { -1 } }).error.message, "tokens[0]: expected")
  contains(service:call("tokenize", "{}").error.message, "expected a prompt, or messages")
  local info = service:call("tokenizer_info", "{}")
  equal(info.eos_token, tokenizer:token_of(tokenizer:eos()))
  equal(info.chat_template, TEMPLATE)
  local bytes = {}
  for i, id in ipairs(result.tokens) do bytes[i] = tokenizer:token_bytes(id) end
  equal(table.concat(bytes), text)
  local function fit(whole, ...)
    local list = {}
    for i, piece in ipairs { ... } do
      list[i] = { bytes = piece, is_special = piece == "<s>", is_shown = true }
    end
    for i, token in ipairs(prompts.fit_first(list, whole)) do
      list[i] = token.is_shown and token.bytes or ""
    end
    return list
  end
  equal(fit("a b", " a", " b"), { "a", " b" })
  equal(fit(" a b", "  a", " b"), { " a", " b" })
  equal(fit(" a b", " a", " b"), { " a", " b" })
  equal(fit("a", "<s>", " a"), { "", "a" })
  equal(fit("<s>a", "<s>", "a"), { "<s>", "a" })
end

sections[arg[1]]()
