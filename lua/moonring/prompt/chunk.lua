--- A line of the prompt, or several that belong together, as a function.
---@class moonring.prompt_chunk
local chunk = {}

local raw_load = load

-- Whether more lines could make it whole.
local function wants_more(why) return why:find "near '<eof>'$" ~= nil end

--- Compiles text: as an expression, whose values it returns, else as statements. "=" before it is
--- let be.
---@param text string
---@param globals table what it sees and defines
---@return function? fn nil where it is no Lua
---@return string? why
---@return boolean? more it is not at its end: more lines may follow
function chunk.compile(text, globals)
  local expression = text:match "^%s*=(.*)$"
  local fn, why = raw_load("return nil, " .. (expression or text), "=stdin", "t", globals)
  -- Were the call in `f(x)` its last, an error in it would have no line.
  if fn then return function() return select(2, fn()) end end
  local more = wants_more(why)
  if not expression then
    fn, why = raw_load(text, "=stdin", "t", globals)
    if fn then return fn, nil, false end
  end
  return nil, why, more or wants_more(why)
end

return chunk
