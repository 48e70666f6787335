--- Compiles one or more input lines of the prompt to a function.
---@class moonring.prompt_chunk
local chunk = {}

local raw_load = load

-- Whether a syntax error only means that the input is incomplete.
local function wants_more(why) return why:find "near '<eof>'$" ~= nil end

--- Compiles a text as an expression, whose values the function then returns; if that fails, as
--- statements. A leading "=" is allowed.
---@param text string
---@param globals table the environment of the text
---@return function? fn nil if it does not compile
---@return string? why
---@return boolean? more whether the text is incomplete, so that more lines may follow
function chunk.compile(text, globals)
  local expression = text:match "^%s*=(.*)$"
  local fn, why = raw_load("return nil, " .. (expression or text), "=stdin", "t", globals)
  -- "return nil, f(x)" avoids a tail call of f, which would lose the line number of errors.
  if fn then return function() return select(2, fn()) end end
  local more = wants_more(why)
  if not expression then
    fn, why = raw_load(text, "=stdin", "t", globals)
    if fn then return fn, nil, false end
  end
  return nil, why, more or wants_more(why)
end

return chunk
