-- The components of the interactive prompt: chunks of input, display of values, completion by Tab,
-- help, and the parser of annotations. Expected values are in this file.
local scratch = arg[1]
local chat = require "moonring.run.chat"
local moonring = require "moonring"
local annotations = require "moonring.prompt.annotations"
local chunk = require "moonring.prompt.chunk"
local help = require "moonring.prompt.help"
local offers = require "moonring.prompt.offers"
local show = require "moonring.prompt.show"

local function equal(what, got, wanted)
  if got ~= wanted then
    error(("%s: got\n%s\nwanted\n%s"):format(what, tostring(got), tostring(wanted)), 2)
  end
end

local function has(what, text, part)
  if not text:find(part, 1, true) then error(("%s: no '%s' in\n%s"):format(what, part, text), 2) end
end

-- Chunks: expressions, statements, and incomplete input that needs another line.
local globals = setmetatable({}, { __index = _G })
local function value(text) return assert(chunk.compile(text, globals))() end
equal("an expression", value "1 + 1", 2)
equal("after =", value "= 'a' .. 'b'", "ab")
equal("a statement", value "x = 3", nil)
equal("what it set", globals.x, 3)
equal("return", value "return 4", 4)
equal("several values", select("#", value "1, nil, nil"), 3)
for text, more in pairs {
  ["for i = 1, 2 do"] = true, ["f("] = true, ["1 +"] = true, ["x ="] = true, ["[[a"] = true,
  ["= 1 +"] = true, ["--[[ a"] = true, ["if x then\ny = 1"] = true,
  ["x y"] = false, ["end"] = false, ["1 2"] = false, ["= x y"] = false, ["for for"] = false,
} do
  local fn, why, wants = chunk.compile(text, globals)
  equal("no function of " .. text, fn, nil)
  equal("a reason of " .. text, type(why), "string")
  equal("more of " .. text, wants, more)
end
local done, why = pcall(assert(chunk.compile("error('boom')", globals)))
equal("an error has its line", done, false)
equal("its words", why, "stdin:1: boom")

-- Display of values.
local itself = { 1 }
itself.again = itself
for wanted, shown in pairs {
  ['"a\\n\\"b\\"\\\\"'] = 'a\n"b"\\', ["1.5"] = 1.5, ["true"] = true, ["{}"] = {},
  ['{ 1, 2, [2.5] = "x", a = { b = {} }, ["not"] = 1, ["two words"] = 2 }'] =
    { 1, 2, [2.5] = "x", a = { b = {} }, ["not"] = 1, ["two words"] = 2 },
  ["{ 1, again = { ... (itself) } }"] = itself,
  ["{ { { { { ... } } } } }"] = { { { { { 1 } } } } },
} do equal("shown", show.text(shown), wanted) end
equal("nil", show.text(nil), "nil")
local long = {}
for i = 1, 50 do long[i] = i end
local lines = show.text(long)
has("a long list", lines, "39, 40, ... (10 more)\n}")
equal("lines of a long list", select(2, lines:gsub("\n", "")), 3)
equal("a tensor", show.text(moonring.tensor { 1 }), tostring(moonring.tensor { 1 }))
equal("its own words", show.text(setmetatable({}, { __tostring = function() return "me" end })),
  "me")
has("a function", show.text(moonring.comm.mesh), "function moonring.comm.mesh(options?: ")

-- Completion by Tab.
local own = { moonring = moonring, t = moonring.tensor { 1 }, text = "abc",
  deep = { inner = { one = 1, other = print, [2] = 3, ["a b"] = 4, _hidden = 5 } } }
local function offered(line)
  local begin, words, with_types = offers.of(line, #line, own)
  return begin .. " " .. table.concat(words, " "), table.concat(with_types, "; ")
end
for line, wanted in pairs {
  ["moonring.comm.m"] = "14 mesh", ["x = deep.inner.o"] = "15 one other", ["deep.inner:o"] =
    "11 other", ["deep.inner._"] = "11 _hidden", ["deep.nothing.x"] = "14 ", ["whi"] = "0 while",
  ["te"] = "0 text", ["text:rep"] = "5 rep", ["f().a"] = "5 ", ["print('moonr"] = "12 ",
  ["'a' .. te"] = "7 text", ["t:sum"] = "2 sum sum_to_size", ["deep.inner."] = "11 one other",
} do equal("offers of " .. line, (offered(line)), wanted) end
has("with schemas", select(2, offered "t:sum"), "sum(Tensor self, *, ScalarType? dtype=None)")
equal("with types", select(2, offered "t:keep"), "keep(): moonring.Tensor")
equal("operators", (offered "moonring.ops.arang"), "13 arange")
equal("the rest of the only one", select(2, offered "t:kee"), "keep")
equal("fields with types", select(2, offered "deep.inner.o"), "one: number; other(...)")
equal("a module's", select(2, offered "moonring.comm.mesh"),
  "mesh(options?: moonring.MeshOptions): moonring.Mesh")
equal("a described field", select(2, offered "moonring.version"), "version: string")

-- Help for a bound function, a Lua function, a module, an object, and names.
has("a bound function", help.text(moonring.comm.mesh),
  "number of ranks that share one sequence")
has("a Lua function", help.text(chat.sampling), "moonring.chat.sampling(c: ")
has("a module", help.text(moonring.comm), ".mesh(options?: moonring.MeshOptions): moonring.Mesh")
has("the face", help.text(moonring), "comm: moonring.comm")
has("an object", help.text(moonring.tensor { 1 }), ":keep(): moonring.Tensor")
has("an object of Lua's", help.text(chat.new({}, {}, {}, {})), "moonring.Chat")
equal("a class by name", help.text "Tensor", help.text(moonring.tensor { 1 }))
has("a method by name", help.text "Tensor:keep", "Moves the tensor out of the")
for _, sum in ipairs { "Tensor:sum", moonring.tensor({ 1 }).sum, moonring.ops.sum } do
  has("an operator", help.text(sum), ".dim_IntList(Tensor self, int[1]? dim, bool keepdim=False")
end
has("no method", help.text(moonring.ops.arange), "moonring.ops.arange\n    arange(Scalar end, *, ")
equal("a path", help.text "moonring.comm.mesh", help.text(moonring.comm.mesh))
has("a name that is none", help.text "Tenso", "did you mean 'Tensor'?")
has("a value", help.text(5), "no documentation")
has("nothing", help.text(), "Ctrl-C")

-- The parser of annotations.
moonring.system.make_folder(scratch .. "/types")
moonring.system.make_folder(scratch .. "/rooms")
moonring.system.write(scratch .. "/types/thing.lua", [[
---@meta moonring.native.thing

--- What a thing is.
---@class moonring.thing
---@field size "small" | "large" how it is
---   measured
--- the second one
---@field other? table<string, integer>
local thing = {}

--- Makes it. Errors: NOT_FOUND.
---
---     thing.make("a", print)
---@param name string its
---   name
---@param fn? fun(x: integer): string, boolean called
---@return moonring.thing | nil made the thing
---@return string
function thing.make(name, fn) end

--- Ends it.
function thing:stop() end

return thing
]])
local said = annotations.read(scratch .. "/types", scratch .. "/rooms")
local class = said.classes["moonring.thing"]
equal("module", said.modules["moonring.native.thing"], "moonring.thing")
equal("class", class.text, "What a thing is.")
equal("order", table.concat(class.order, " "), "make stop")
equal("field's type", class.fields.size.types, '"small" | "large"')
equal("field's text", class.fields.size.text, "how it is measured")
equal("text before a field", class.fields.other.text, "the second one")
equal("optional", class.fields.other.optional, true)
local make = class.functions.make
equal("text", make.text, 'Makes it. Errors: NOT_FOUND.\n\n    thing.make("a", print)')
equal("errors", make.errors:match "^[^\n]*", "NOT_FOUND.")
equal("parameter's text", make.params[1].text, "its name")
equal("a function's type", make.params[2].types, "fun(x: integer): string, boolean")
equal("result", make.returns[1].types .. "/" .. make.returns[1].name .. "/"
  .. make.returns[1].text, "moonring.thing | nil/made/the thing")
equal("results", #make.returns, 2)
equal("method", class.functions.stop.method, true)
