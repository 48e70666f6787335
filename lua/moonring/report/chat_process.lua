--- The process with the model of `moonring watch`'s chat, from its start to its end
-- (`moonring chat --requests`). It has a low priority, and is the first one that the kernel
-- ends if memory runs out, so that it does not disturb a training.
local errors = require "moonring.base.errors"
local rewards = require "moonring.native.rewards"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.chat_process
local chat_process = {}

---@class moonring.ChatProcess
---@field key string what it has loaded
---@field child moonring.ChildProcess
---@field loaded boolean whether the model is loaded
---@field notes string[] the notes of loading the model
---@field pending? string what was not handed to the process yet
local ChatProcess = {}
ChatProcess.__index = ChatProcess

--- The model that a process loads.
---@class moonring.ChatModel
---@field path string
---@field words string[] key=value
---@field directory? string working directory; default: the current one
---@field device "auto" | "cpu"
---@field modified number when the model was written

--- A text that is the same for the same loaded model.
---@param model moonring.ChatModel
---@return string
function chat_process.key(model)
  return system.json_encode { model.path, model.words, model.directory or "", model.device,
    model.modified }
end

--- A started process.
---@param child moonring.ChildProcess
---@param key string of its model
---@return moonring.ChatProcess
function chat_process.of(child, key)
  return setmetatable({ key = key, child = child, loaded = false, notes = {} }, ChatProcess)
end

--- Starts a process that loads a model.
---@param model moonring.ChatModel
---@return moonring.ChatProcess
function chat_process.start(model)
  local command = { watch_native.program() }
  if model.device == "cpu" then command[2], command[3] = "--device", "cpu" end
  for _, word in ipairs { "chat", "--requests", model.directory or "", system.absolute(model.path),
    unpack(model.words) } do
    command[#command + 1] = word
  end
  return chat_process.of(rewards.child(command), chat_process.key(model))
end

--- Sends a request, or { stop = true }.
---@param value table
function ChatProcess:send(value)
  self.pending = (self.pending or "") .. system.json_encode(value) .. "\n"
end

--- The events since the last call: tables with one of text, done and error. Does not wait. Errors:
--- UNAVAILABLE if the process has ended.
---@return table[]
function ChatProcess:events()
  local events, text = {}, self.pending or ""
  self.pending = nil
  for _, line in ipairs(self.child:exchange(text)) do
    local event = system.json_decode(line, "the chat's process")
    if event.loaded then
      self.loaded = true
    elseif event.note then
      self.notes[#self.notes + 1] = event.note
    else
      events[#events + 1] = event
    end
  end
  return events
end

--- Why the process has ended, in a sentence.
---@param why any the error of `events`
---@return string
function chat_process.ended(why)
  local words = errors.words(why)
  if words:find "signal 9" then
    words = words .. " (memory ran out: this process is the first one that the kernel ends)"
  end
  return "the process with the model has ended: " .. words
end

--- Ends the process, which frees its memory.
function ChatProcess:close() self.child:close() end

return chat_process
