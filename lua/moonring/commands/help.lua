--- Makes the texts of `moonring help`, from the table of keys and the comments at the top of the
-- scripts.
local bounds = require "moonring.config.bounds"
local config = require "moonring.config"
local keys = require "moonring.config.keys"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"
local templates = require "moonring.data.templates"

---@class moonring.help
local help = {}

-- The commands in the order of use; others follow, by name.
local ORDER = { "train", "chat", "serve", "export", "preprocess", "evaluate", "plan", "inspect",
  "report", "watch", "explain", "probe", "needle", "check", "repl", "sft", "dpo", "grpo",
  "own_loss", "env", "version", "help" }

local function commands_in_order()
  local place, names = {}, system.commands()
  for i, name in ipairs(ORDER) do place[name] = i end
  table.sort(names, function(a, b)
    local i, j = place[a] or #ORDER + 1, place[b] or #ORDER + 1
    if i ~= j then return i < j end
    return a < b
  end)
  return names
end

local function stage_lines()
  local lines = {}
  for i, stage in ipairs(stages.abouts()) do
    lines[i] = ("stage: %-10s  %s"):format(stage.name, stage.about)
  end
  return table.concat(lines, "\n")
end

local function show(value)
  if value == system.null then return "null" end
  return tostring(value)
end

local function key_lines()
  local lines = {}
  for _, section in ipairs(keys) do
    lines[#lines + 1] = "\n" .. section.title
    for _, row in ipairs(section.rows) do
      local meaning = row[4]
      if row.choices then meaning = meaning .. " [" .. table.concat(row.choices, " | ") .. "]" end
      if row.only then meaning = meaning .. " (only the default: " .. row.only .. ")" end
      if row.ignored then meaning = meaning .. " (no effect: " .. row.ignored .. ")" end
      lines[#lines + 1] = ("  %-36s %-7s %-12s %s"):format(row[1], row[2], show(row[3]), meaning)
    end
  end
  return table.concat(lines, "\n")
end

local RESUME = { free = "may change", told = "may change, with a note in the log",
  refused = "must not change" }

-- The complete description of one key.
local function key_text(name)
  local names = {}
  for _, section in ipairs(keys) do
    for _, row in ipairs(section.rows) do
      names[#names + 1] = row[1]
      if row[1] == (keys.aliases[name] or name) then
        local alias = name ~= row[1] and (" (also named %s)"):format(name) or ""
        local lines = { row[1] .. alias .. ": " .. row[4] }
        local function say(what, text)
          if text then lines[#lines + 1] = ("  %-9s %s"):format(what, text) end
        end
        say("type", row[2])
        say("default", row[3] == system.null and "none" or show(row[3]))
        say("bounds", bounds.words(row))
        say("values", row.choices and table.concat(row.choices, ", "))
        say("or", row.own_file and "the path of a .lua file")
        say("accepted", row.only and "only the default: " .. row.only)
        say("effect", row.ignored and "none: " .. row.ignored)
        say("resumed", keys.acts(row) and "in a resumed run it "
          .. RESUME[row.resume or "refused"])
        say("section", section.title)
        return table.concat(lines, "\n")
      end
    end
  end
  for alias in pairs(keys.aliases) do names[#names + 1] = alias end
  local near = system.did_you_mean(name, names)
  config.fail("no key '", name, "'", near, "; moonring help train lists them")
end

-- Reads the comment at the top of a script.
local function about(name)
  local lines = {}
  for line in system.read(system.script_path(name)):gmatch "([^\n]*)\n" do
    local text = line:match "^%-%-%-? ?(.*)$"
    if not text then break end
    lines[#lines + 1] = text
  end
  return table.concat(lines, "\n")
end

-- Lists the keys of a script that uses moonring.flags; "" for other scripts.
local function flags_of(name)
  local block = system.read(system.script_path(name)):match "moonring%.flags (%b{})"
  if not block then return "" end
  return "\n\nKeys and their defaults:" .. block:sub(2, -2):gsub("moonring%.", ""):gsub("%s+", " ")
end

--- The help text on a command (on train with all stages and keys), or on one key of train; without
--- arguments the list of commands. Errors: INVALID_ARGUMENT, with the nearest name.
---@param command? string
---@param key? string a key of train
---@return string
function help.text(command, key)
  if key and command ~= "train" then
    config.fail("help ", command, " ", key,
      ": expected one word; moonring help train KEY: of a key")
  end
  if key then return key_text(key) end
  if command == "templates" then return table.concat(templates.names(), "\n") end
  if command then
    local known = system.commands()
    local found = false
    for _, name in ipairs(known) do found = found or name == command end
    if not found then
      config.fail("no command '", command, "'", system.did_you_mean(command, known), "; commands: ",
        table.concat(known, ", "))
    end
    local list = command == "train" and "\n\n" .. stage_lines()
      .. "\n\nKeys: name, type, default, meaning" .. key_lines()
    return about(command) .. (list or flags_of(command))
  end
  local lines = { "moonring [-n RANKS] [--device cpu|cuda] [--sandbox] SCRIPT.lua|COMMAND "
    .. "[arguments...]", "" }
  for _, option in ipairs {
    { "-e CODE", "run this code instead of a script, with the global moonring" },
    { "-", "run a script from stdin" },
    { "-n RANKS", "number of ranks on this machine" },
    { "--device cpu|cuda", "the device; default: a GPU if there is one" },
    { "--sandbox", "scripts have no io, os.execute, ffi; no script or command has files outside of "
      .. "the roots" },
    { "--sandbox-root DIR", "a root, may be repeated; default: the current folder" },
    { "--sandbox-instructions N", "maximum number of Lua instructions" },
    { "--sandbox-memory SIZE", "maximum memory of the process after a script begins: 2GiB, "
      .. "500MB" },
  } do
    lines[#lines + 1] = ("  %-26s %s"):format(option[1], option[2])
  end
  lines[#lines + 1] = ""
  for _, name in ipairs(commands_in_order()) do
    local text = (about(name) .. " "):gsub("\n", " "):gsub("^moonring [%w_]+[^:]*: ", "")
    lines[#lines + 1] = ("  %-12s %s"):format(name, text:match "^(.-)%. " or text)
  end
  lines[#lines + 1] = "\nmoonring help COMMAND, or COMMAND --help, describes it; help train lists "
    .. "every key of a configuration,\nhelp train KEY describes one, help templates lists the chat "
    .. "templates."
  return table.concat(lines, "\n")
end

return help
