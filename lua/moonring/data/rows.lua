--- The rows of files one by one, as a source of data (source.lua) or a part of one:
--
--   local rows = moonring.data.rows("talks.jsonl", { filter = function(row) .. end })
--   rows.next(), rows.state(), rows.load_state(state)
local hub_datasets = require "moonring.data.hub_datasets"
local native = require "moonring.native.source"
local options = require "moonring.base.options"

---@class moonring.RowsOptions
--- `what` is the name of a data set in this folder's dataset_info.json, whose description says how
--- its rows are to be read
---@field dataset_dir? string
---@field filter? fun(row: table): boolean? whether a row stays
---@field map? fun(row: table): moonring.SourceRow? what becomes of a row that stays; nil: it goes
---@field formatting? string how rows are to be read: moonring.SourceTable
---@field columns? table<string, string>
---@field tags? table<string, string>

---@class moonring.rows_of_files
local rows_of_files = {}

local OPTIONS = { dataset_dir = "string?", filter = "function?", map = "function?",
  formatting = "string?", columns = "table?", tags = "table?" }

--- The rows of a json, jsonl, csv, txt, parquet or arrow file (or a list of such files, one after
--- another), or of a named data set, from their beginning: tables with the file's columns, null
--- where it says null. What goes on where state() says, reads on there. Errors: NOT_FOUND,
--- INVALID_ARGUMENT; of a row, with its file and line.
---@param what string | string[] a file's path or several; with dataset_dir a name
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
