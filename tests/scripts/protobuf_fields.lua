--- Reads the message SampleResponse (numbers of its fields: the descriptor of the public SDK), for
-- tests.
local ffi = require "ffi"

local messages = {}

-- The fields of a message: { number, bytes or integer }.
local function fields_of(bytes)
  local list, place = {}, 1
  local function varint()
    local sum, factor = 0, 1
    while true do
      local byte = bytes:byte(place)
      place, sum = place + 1, sum + byte % 128 * factor
      factor = factor * 128
      if byte < 128 then return sum end
    end
  end
  while place <= #bytes do
    local key = varint()
    local kind, value = key % 8
    if kind == 0 then
      value = varint()
    else
      assert(kind == 2, "a field of kind " .. kind)
      local size = varint()
      value, place = bytes:sub(place, place + size - 1), place + size
    end
    list[#list + 1] = { math.floor(key / 8), value }
  end
  return list
end

local function numbers(bytes, kind)
  local size = ffi.sizeof(kind)
  local array, list = ffi.new(kind .. "[?]", #bytes / size), {}
  ffi.copy(array, bytes, #bytes)
  for i = 1, #bytes / size do list[i] = tonumber(array[i - 1]) end
  return list
end

local function top_of(bytes)
  local top = {}
  for _, field in ipairs(fields_of(bytes)) do
    if field[1] == 1 then top.ids = numbers(field[2], "int32_t") end
    if field[1] == 2 then top.logprobs = numbers(field[2], "float") end
    if field[1] == 3 then top.k = field[2] end
    if field[1] == 4 then top.length = field[2] end
  end
  return top
end

local function tensor_of(bytes)
  local tensor = { shape = {} }
  for _, field in ipairs(fields_of(bytes)) do
    if field[1] == 1 then tensor.data = numbers(field[2], "float") end
    if field[1] == 4 then
      for i = 1, #field[2] do tensor.shape[i] = field[2]:byte(i) end -- small ones
    end
  end
  return tensor
end

local function sequence_of(bytes)
  local sequence = { stop_reason = 0 }
  for _, field in ipairs(fields_of(bytes)) do
    if field[1] == 1 then sequence.stop_reason = field[2] end
    if field[1] == 2 then sequence.tokens = numbers(field[2], "int32_t") end
    if field[1] == 3 then sequence.logprobs = numbers(field[2], "float") end
    if field[1] == 4 then sequence.topk = top_of(field[2]) end
  end
  return sequence
end

function messages.sample(bytes)
  local result = { sequences = {} }
  for _, field in ipairs(fields_of(bytes)) do
    local number, value = field[1], field[2]
    if number == 1 then result.sequences[#result.sequences + 1] = sequence_of(value) end
    if number == 2 then result.prompt_logprobs = numbers(value, "float") end
    if number == 3 then result.topk_prompt_logprobs = top_of(value) end
    if number == 5 then result.target_prompt_logprobs = tensor_of(value) end
  end
  return result
end

--- Asserts that two results are the same, numbers within a bound.
function messages.same(a, b, bound)
  if type(b) == "number" then
    assert(math.abs(a - b) <= bound or a ~= a and b ~= b, a .. ", " .. b)
  elseif type(b) == "table" then
    for name, value in pairs(b) do messages.same(a[name], value, bound) end
    for name in pairs(a) do assert(b[name] ~= nil, name) end
  else
    assert(a == b)
  end
end

--- Replaces NaN, which JSON does not have.
function messages.without_nan(value)
  for name, each in pairs(value) do
    if type(each) == "table" then messages.without_nan(each) end
    if each ~= each then value[name] = "nan" end
  end
end

return messages
