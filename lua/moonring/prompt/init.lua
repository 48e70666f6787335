--- The interactive prompt (`moonring repl`): reads lines, runs them and prints their values. Other
-- modules of this folder: chunk.lua (compiles lines), show.lua (formats values), offers.lua (Tab
-- completion), help.lua and documentation.lua (help on the API), annotations.lua and
-- annotated_file.lua (parse annotations).
--
-- With several ranks, rank 0 reads lines and all ranks run them: lua/host/prompt_ranks.h.
local chat = require "moonring.run.chat"
local chunk = require "moonring.prompt.chunk"
local offers = require "moonring.prompt.offers"
local help = require "moonring.prompt.help"
local model = require "moonring.model"
local native = require "moonring.native.prompt"
local policy = require "moonring.model.policy"
local show = require "moonring.prompt.show"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.prompt
local prompt = {}

local function say(...)
  io.stdout:flush() -- keeps the order with lines printed before
  terminal.note(...)
end

-- The globals for input lines; under --sandbox they are those of a confined script.
local function new_globals(rank)
  local globals = native.is_confined() and require("moonring.sandbox").globals() or _G
  globals.moonring = globals.require "moonring"
  function globals.help(...)
    if rank == 0 then terminal.print(help.text(...)) end
  end
  return globals
end

local USAGE = "moonring repl [MODEL [key=value...]]"

-- Opens the MODEL of the command line and sets the globals `model` and `tokenizer`. Returns a line
-- for the log.
local function open_model(globals, words)
  local config = chat.command(words, USAGE)
  local checkpoint = model.open(config.model_name_or_path, config)
  globals.tokenizer = vocabulary.open(config, checkpoint)
  globals.model = policy.load(config, checkpoint)
  for _, line in ipairs(config.notes) do say(line, "\n") end
  return ("model: %s; tokenizer: %s"):format(tostring(globals.model), tostring(globals.tokenizer))
end

local function packed(...) return { n = select("#", ...), ... } end

-- Runs a text and returns its results. The first value becomes the global `_`.
local function run(text, globals)
  local fn, why = chunk.compile(text, globals)
  if not fn then return packed(false, why, "") end
  local results = packed(native.evaluate(fn))
  if results[1] and results.n > 1 then globals._ = results[2] end
  return results
end

-- The loop of ranks other than 0: runs the texts that rank 0 sends, until rank 0 ends.
local function follow(globals)
  for text in function() return native.receive() end do
    local results = run(text, globals)
    io.stdout:flush()
    native.report(results[1] and "" or results[2] .. results[3])
  end
end

-- Prints a line's values, or its error.
local function tell(results)
  local shown = results
  if results[1] then
    shown = packed(native.evaluate(function()
      for i = 2, results.n do terminal.print(show.text(results[i])) end
    end))
  end
  if not shown[1] then
    local after_keys = shown[2] == "interrupted" and native.is_typed() -- after the terminal's ^C
    say(after_keys and "\n" or "", shown[2], shown[3], "\n")
  end
  io.stdout:flush()
end

-- Runs a complete text on all ranks.
local function execute(text, globals)
  if native.size() == 1 then return tell(run(text, globals)) end
  native.send(text)
  local results = run(text, globals)
  tell(results)
  local mine = results[1] and "" or results[2] .. results[3]
  for rank, outcome in ipairs(native.gather()) do
    if outcome ~= "" and outcome ~= mine then
      say("[rank ", rank, "] ", (outcome:gsub("\n", "\n[rank " .. rank .. "] ")), "\n")
    end
  end
end

-- Returns a function that reads the next line. Its results are the line, nil at the end of input,
-- and whether Ctrl-C discarded the line.
local function reader(globals)
  if not native.is_typed() then return function() return io.read "*l" end end
  return function(text)
    return native.read_line(text, function(line, cursor)
      return offers.of(line, cursor, globals)
    end)
  end
end

-- The loop of rank 0: reads and runs lines until the end of input.
local function lead(globals)
  local read, text = reader(globals), ""
  while true do
    local line, interrupted = read(text == "" and "> " or ">> ")
    if interrupted then
      text = ""
    elseif not line then
      if text ~= "" then say(select(2, chunk.compile(text, globals)), "\n") end
      return
    elseif text ~= "" or line:find "%S" then
      text = text == "" and line or text .. "\n" .. line
      local fn, why, more = chunk.compile(text, globals)
      if fn then
        execute(text, globals)
      elseif not more then
        say(why, "\n")
      end
      if fn or not more then text = "" end
    end
  end
end

local function greeting()
  local size = native.size()
  return ("Moonring %s, LibTorch %s%s. help() shows more, Ctrl-D leaves.\n"):format(
    system.version(), system.torch_version(), size > 1 and (", %d ranks"):format(size) or "")
end

--- Runs the prompt until the end of its input. On a terminal it has line editing, history and Tab
--- completion; otherwise it reads plain lines of stdin. Errors: FAILED_PRECONDITION if the host was
--- not started as a prompt; those of opening MODEL.
---@param words string[] [MODEL [key=value...]], as for `moonring chat`
function prompt.run(words)
  local rank = native.rank()
  local globals = new_globals(rank)
  local opened = words[1] and open_model(globals, words)
  if rank > 0 then return follow(globals) end
  if native.is_typed() then say(greeting()) end
  if opened then say(opened, "\n") end
  lead(globals)
  if native.size() > 1 then native.leave() end
  if native.is_typed() then print() end
end

return prompt
