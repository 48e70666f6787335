---@meta moonring.options

--- Tables of named options, checked as those of bound functions are. Scripts may check their own
--- with it. Errors: INVALID_ARGUMENT, at the line of the script.
---@class moonring.options
local options = {}

--- Ends with an error of the function `name`, at the line of the script that called it.
---@param name string
---@param ... string
function options.refuse(name, ...) end

--- Refuses an unknown option with the nearest name, one of another type, and one that is missing.
--- Names that begin with an underscore are left alone: they are for whoever made the table.
---@param name string the function that takes the table
---@param given? table
---@param known table<string, string> of each option its type ("number", "any"); "table?": optional
---@return table given {} for nil
function options.check(name, given, known) end

--- Refuses a value that is none of these words.
---@param name string the function that takes the table
---@param given table
---@param key string
---@param choices string[]
function options.choice(name, given, key, choices) end

return options
