--- Reads rows of files one by one. The result is a source (source.lua), and can be part of another
-- source:
--
--   local rows = moonring.data.rows("talks.jsonl", { filter = function(row) .. end })
--   rows.next(), rows.state(), rows.load_state(state)
local hub_datasets = require "moonring.data.hub_datasets"
local native = require "moonring.native.source"
local options = require "moonring.base.options"

--- Options of data.rows.
---@class moonring.RowsOptions
--- `dataset_dir`: if set, the argument `what` is the name of a data set in the dataset_info.json of
--- this folder; the entry there determines how rows are read.
---@field dataset_dir? string
---@field filter? fun(row: table): boolean? keeps rows for which it returns true
---@field map? fun(row: table): moonring.SourceRow? converts kept rows; nil drops the row
---@field formatting? string interpretation of rows, as in moonring.SourceTable
---@field columns? table<string, string>
---@field tags? table<string, string>

---@class moonring.rows_of_files
local rows_of_files = {}

local OPTIONS = { dataset_dir = "string?", filter = "function?", map = "function?",
  formatting = "string?", columns = "table?", tags = "table?" }

--- Reads the rows of a json, jsonl, csv, txt, parquet or arrow file (or of a list of such files),
--- or of a named data set. Each row is a table of the file's columns; null becomes moonring.null.
--- With state() and load_state() reading can continue later. Errors: NOT_FOUND; INVALID_ARGUMENT,
--- for a row with its file and line.
---@param what string | string[] path of a file, or several; with dataset_dir a name
---@param given? moonring.RowsOptions
---@return moonring.SourceTable
function rows_of_files.open(what, given)
  given = options.check("data.rows", given, OPTIONS)
  local rows, description
  if given.dataset_dir then
    local dir = hub_datasets.dir { dataset_dir = given.dataset_dir }
    rows, description = native.named_rows(dir, what, hub_datasets.fetch(dir, { what }, {}),
      hub_datasets.is_remote(given))
  else
    rows = native.rows(type(what) == "table" and what or { what })
  end
  description = description or {}
  local filter, map = given.filter, given.map
  return {
    next = function()
      while true do
        local row = rows:next()
        if row == nil then return nil end
        if not filter or filter(row) then
          if map then row = map(row) end
          if row ~= nil then return row end
        end
      end
    end,
    state = function() return rows:save_state() end,
    load_state = function(state) rows:load_state(state) end,
    name = type(what) == "table" and what[1] or what,
    formatting = given.formatting or description.formatting,
    columns = given.columns or description.columns,
    tags = given.tags or description.tags,
  }
end

return rows_of_files
