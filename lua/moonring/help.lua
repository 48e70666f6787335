--- The texts of `moonring help`, made from the table of keys and from the scripts' own first lines.
local config = require "moonring.config"
local keys = require "moonring.keys"
local system = require "moonring.native.system"
local templates = require "moonring.templates"

local help = {}

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
      if row.only then meaning = meaning .. " (the default alone: " .. row.only .. ")" end
      local idle = row.ignored or row.warned
      if idle then meaning = meaning .. " (no effect" .. (idle ~= "" and ": " .. idle or "") .. ")" end
      lines[#lines + 1] = ("  %-36s %-7s %-12s %s"):format(row[1], row[2], show(row[3]), meaning)
    end
  end
  return table.concat(lines, "\n")
end

--- The comment that a script opens with.
local function about(name)
  local lines = {}
  for line in system.read(system.script_path(name)):gmatch "([^\n]*)\n" do
    local text = line:match "^%-%-%-? ?(.*)$"
    if not text then break end
    lines[#lines + 1] = text
  end
  return table.concat(lines, "\n")
end

function help.text(command)
  if command == "templates" then return table.concat(templates.names(), "\n") end
  if command then
    local known = system.commands()
    local found = false
    for _, name in ipairs(known) do found = found or name == command end
    if not found then config.fail("no command '", command, "'", system.did_you_mean(command, known), "; commands: ", table.concat(known, ", ")) end
    return about(command) .. (command == "train" and "\n\nKeys: name, type, default, meaning" .. key_lines() or "")
  end
  local lines = { "moonring [-n RANKS] [--device cpu|cuda] [--sandbox] SCRIPT.lua|COMMAND [arguments...]", "" }
  for _, option in ipairs {
    { "-n RANKS", "so many ranks on this machine" },
    { "--device cpu|cuda", "what computes; a GPU where there is one" },
    { "--sandbox", "scripts have no io, os.execute, ffi; no file outside of the roots, for commands neither" },
    { "--sandbox-root DIR", "a root, several times: several; the current folder where there is none" },
    { "--sandbox-instructions N", "of Lua, at most" },
    { "--sandbox-memory SIZE", "of Lua's heap and of tensors, at most: 2GiB, 500MB" },
  } do
    lines[#lines + 1] = ("  %-26s %s"):format(option[1], option[2])
  end
  lines[#lines + 1] = ""
  for _, name in ipairs(system.commands()) do
    local text = (about(name) .. " "):gsub("\n", " "):gsub("^moonring [%w_]+[^:]*: ", "")
    lines[#lines + 1] = ("  %-12s %s"):format(name, text:match "^(.-)%. " or text)
  end
  lines[#lines + 1] = "\nmoonring help COMMAND says more; help train lists every key of a configuration, help templates the chat templates."
  return table.concat(lines, "\n")
end

return help
