--- Generates the pages of docs/lua from annotations, one page per module or folder. They cover
-- everything that scripts can reach: the fields of `moonring`, native modules, and the classes of
-- arguments and results.
local markdown = require "moonring.commands.markdown"
local documentation = require "moonring.prompt.documentation"
local operator_types = require "moonring.commands.operator_types"

---@class moonring.lua_pages
local lua_pages = {}

-- The pages: each has a name and a list of sources. A source is a folder of lua/moonring or a file,
-- such as "types/comm". A class in such a file is on that page, even if its folder belongs to
-- another page.
local PAGES = {
  { "moonring", { "types/moonring", "base" } },
  { "tensor", { "types/tensor" } },
  { "operators", { "types/operators" } },
  { "autograd", { "types/autograd", "base/autograd" } },
  { "nn", { "nn" } },
  { "comm", { "types/comm" } },
  { "collectives", { "types/collectives" } },
  { "attention", { "types/attention", "types/mixing" } },
  { "model", { "types/model", "model", "hub", "types/hub" } },
  { "data", { "types/data", "types/source", "data" } },
  { "objectives", { "types/objectives" } },
  { "trainer", { "types/trainer", "types/trainer_options" } },
  { "run", { "run", "checkpoint", "rollouts", "choices", "stages" } },
  { "rewards", { "rewards", "types/rewards" } },
  { "config", { "config", "keys", "types/configuration" } },
  { "plan", { "plan" } },
  { "serve", { "serve", "openai", "types/serve" } },
  { "report", { "report", "trackers", "types/trace", "types/watch" } },
  { "system", { "types/system", "types/safetensors", "sandbox" } },
}

local MADE = "Made by `moonring docs/lua.lua docs/lua` from the annotations that editors read; a "
  .. "test makes it again and compares."

-- Parses the position of a class: "types/comm.lua:12: " -> "types", "comm".
local function source_of(class) return class.place:match "^([^/]*)/([^/]*)%.lua:" end

local function page_of(class)
  local folder, file = source_of(class)
  for _, wanted in ipairs { folder .. "/" .. file, folder } do
    for _, page in ipairs(PAGES) do
      for _, source in ipairs(page[2]) do
        if source == wanted then return page[1] end
      end
    end
  end
  error(("lua_pages: no page has %s of %s"):format(class.name, class.place), 0)
end

-- Calls `visit` with the name of each class that occurs in a type.
local function each_class(types, visit)
  for name in types:gmatch "moonring[%w_.]*" do visit((name:gsub("%.+$", ""))) end
end

-- The classes that scripts can reach: fields of `moonring`, and classes of arguments and results.
local function reached(classes)
  local found = {}
  local function visit(name)
    local class = classes[name]
    if not class or found[name] then return end
    found[name] = class
    for _, field in pairs(class.fields) do each_class(field.types .. " " .. field.text, visit) end
    for _, fn in pairs(class.functions) do
      for _, param in ipairs(fn.params) do each_class(param.types, visit) end
      for _, result in ipairs(fn.returns) do each_class(result.types, visit) end
    end
  end
  for name, class in pairs(classes) do
    local folder, file = source_of(class)
    if folder == "types" and file ~= "configuration" then visit(name) end
  end
  visit "moonring"
  return found
end

-- The public name of a class. A native module that `moonring` exposes is shown as its field.
local function public_name(class, classes)
  local name = class.name:gsub("^moonring%.native%.", "moonring.")
  local field = classes.moonring.fields[name:match "[^.]*$"]
  return field and (field.types == class.name or field.types == name) and name or class.name
end

-- The variable name of an object in examples: the class's last name in snake case.
local function object_name(class)
  local object = class.name:match "^moonring%.(%u%w*)$"
  return object and (object:gsub("(%l)(%u)", "%1_%2"):lower())
end

-- The text about a class. A Lua module may also re-export native functions, which are included.
local function of_class(class, all)
  local name = public_name(class, all.classes)
  local owner, live = object_name(class) or name, all.live[class.name] or {}
  local parts, functions, fields, modules = { "## " .. name }, {}, {}, {}
  if class.name == "moonring.Configuration" then
    parts[2] = "The keys of a configuration by name: [keys.md](../keys.md)."
    return table.concat(parts, "\n\n")
  end
  if class.text ~= "" then parts[#parts + 1] = markdown.text(class.text) end
  for _, each in ipairs(class.field_order) do
    local field, fn = class.fields[each], live[each]
    local known = type(fn) == "function" and documentation.of_function(fn)
    if known and not documentation.is_operator(known) then
      functions[#functions + 1] = markdown.of_function(known, owner .. "." .. each)
    elseif all.classes[field.types] and all.live[field.types] then
      modules[#modules + 1] = "`" .. each .. "`"
    else
      fields[#fields + 1] = field
    end
  end
  if #fields > 0 then parts[#parts + 1] = "Fields:\n\n" .. markdown.fields(fields) end
  if #modules > 0 then
    parts[#parts + 1] = "Modules, on [pages of their own](README.md):\n\n"
      .. markdown.text(table.concat(modules, ", ") .. ".")
  end
  for _, each in ipairs(class.order) do
    local fn = class.functions[each]
    if fn.class ~= "moonring.TensorOperators" then
      functions[#functions + 1] = markdown.of_function(fn, owner .. (fn.method and ":" or ".")
        .. each)
    end
  end
  parts[#parts + 1] = #functions > 0 and table.concat(functions, "\n\n") or nil
  return table.concat(parts, "\n\n")
end

local OPERATORS = [[
## The list

Each public operator with its first schema. `_`: there is an in-place variant (`add_`). `+n`: it has
n further overloads; `moonring.operators.schemas "add"` lists all, as does `help "Tensor:add"` at
the prompt. Operators whose first argument is a tensor are also methods.
]]

-- The list of type aliases.
local function alias_lines(aliases)
  local lines = {}
  for name, types in pairs(aliases) do
    lines[#lines + 1] = markdown.entry(("`%s`: "):format(name), table.concat(types, " | "))
  end
  table.sort(lines)
  return "\n\n## Names of types\n\n" .. table.concat(lines, "\n") .. "\n"
end

local function title_of(page)
  return page[1] == "moonring" and "moonring" or "moonring: " .. page[1]
end

-- The classes of each page in order: first modules, then classes of objects, by name. A native
-- module is omitted if a Lua module has the same public name, because that module's page shows the
-- native functions.
local function by_page(all)
  local sorted, on = {}, {}
  for name, class in pairs(reached(all.classes)) do
    local module = all.classes[(name:gsub("^moonring%.native%.", "moonring."))]
    local shown = module and module ~= class and next(module.functions)
    if name ~= "moonring.TensorOperators" and not shown then sorted[#sorted + 1] = class end
  end
  table.sort(sorted, function(a, b)
    local x, y = a.name:find "%.%u" and 1 or 0, b.name:find "%.%u" and 1 or 0
    if x ~= y then return x < y end
    return a.name < b.name
  end)
  for _, class in ipairs(sorted) do
    local name = page_of(class)
    on[name] = on[name] or {}
    table.insert(on[name], class)
  end
  return on
end

--- The pages by file name.
---@return table<string, string>
function lua_pages.texts()
  local said = documentation.said()
  local all = { classes = said.classes, live = {} }
  for module, class in pairs(said.modules) do all.live[class] = package.loaded[module] end
  local on = by_page(all)
  local texts, index = {}, { "# The Lua API\n\n" .. markdown.text(MADE) .. "\n\n"
    .. "| page | modules and classes |\n|---|---|" }
  for _, page in ipairs(PAGES) do
    local parts, names = { "# " .. title_of(page), markdown.text(MADE) }, {}
    for i, class in ipairs(on[page[1]] or error("lua_pages: a page of no class: " .. page[1], 0)) do
      parts[#parts + 1] = of_class(class, all)
      names[i] = ("`%s`"):format(public_name(class, all.classes))
    end
    if page[1] == "operators" then
      parts[#parts + 1] = OPERATORS .. "\n```text\n" .. table.concat(operator_types.lines(), "\n")
        .. "\n```"
    end
    texts[page[1] .. ".md"] = table.concat(parts, "\n\n") .. "\n"
    index[#index + 1] = ("| [%s](%s.md) | %s |"):format(page[1], page[1], table.concat(names, ", "))
  end
  texts["README.md"] = table.concat(index, "\n") .. alias_lines(said.aliases)
  return texts
end

return lua_pages
