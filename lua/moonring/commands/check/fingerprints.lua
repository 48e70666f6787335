--- Compares the values that the lines of an objective compute in a layout with those of the base,
-- by their fingerprints (recorder.lua).

---@class moonring.check_fingerprints
local fingerprints = {}

local TOLERANCE = 1e-8

local function near(a, b, size) return math.abs(a - b) <= TOLERANCE * (size + 1e-12) end

--- Whether two values are equal, as far as their fingerprints tell.
---@param a moonring.Fingerprint
---@param b moonring.Fingerprint
---@return boolean
function fingerprints.same(a, b)
  return a.n == b.n and near(a.s1, b.s1, a.size) and near(a.s2, b.s2, a.s2)
end

--- The entries by key and call.
---@param entries moonring.TraceEntry[]
---@return table<string, table<integer, moonring.TraceEntry>>
function fingerprints.by_key(entries)
  local found = {}
  for _, entry in ipairs(entries) do
    found[entry.key] = found[entry.key] or {}
    found[entry.key][entry.call] = entry
  end
  return found
end

local function added(list)
  local sum = { scalar = true, n = 0, s1 = 0, s2 = 0, size = 0 }
  for _, each in ipairs(list) do
    sum.scalar = sum.scalar and each.scalar
    for _, name in ipairs { "n", "s1", "s2", "size" } do sum[name] = sum[name] + each[name] end
  end
  return sum
end

local function all_same(list, one)
  for _, each in ipairs(list) do
    if not fingerprints.same(each, one) then return false end
  end
  return true
end

-- Fingerprints of a key by sp group, call and sp rank: lists of lists over the ranks of a group.
local function grouped(ranks, key, part, sp)
  local groups, all = {}, {}
  for r, of_rank in ipairs(ranks) do
    local calls = {}
    for call, entry in pairs(of_rank[key] or {}) do
      if type(entry[part]) == "table" then calls[#calls + 1] = { call, entry[part] } end
    end
    table.sort(calls, function(a, b) return a[1] < b[1] end)
    for i, each in ipairs(calls) do
      local id = math.floor((r - 1) / sp) * 1e6 + i
      groups[id] = groups[id] or {}
      table.insert(groups[id], each[2])
      all[#all + 1] = each[2]
    end
  end
  return groups, all
end

local function equal_sums(a, b)
  local size = a.size + b.size
  if not near(a.s1, b.s1, size) then return false end
  return a.scalar and b.scalar or a.n == b.n and near(a.s2, b.s2, a.s2 + b.s2)
end

--- The kinds in which values are consistent with the base's; empty if in none.
---@param groups moonring.Fingerprint[][] over the ranks of an sp group
---@param all moonring.Fingerprint[]
---@param base moonring.Fingerprint[]
---@return table<string, boolean>
function fingerprints.kinds(groups, all, base)
  local whole, kinds, firsts = added(base), {}, {}
  local replicated, alike = true, true
  for _, group in pairs(groups) do
    firsts[#firsts + 1] = group[1]
    replicated = replicated and all_same(group, group[1])
    for _, each in ipairs(group) do alike = alike and each.n == group[1].n end
  end
  local sum, first = added(all), added(firsts)
  if equal_sums(sum, whole) then kinds.additive = true end
  if replicated and equal_sums(first, whole) then kinds.replicated = true end
  if alike and first.n == whole.n and near(sum.s1, whole.s1, sum.size + whole.size) then
    kinds.partial = true
  end
  if #base > 0 and all_same(all, base[1]) and all_same(base, base[1]) then kinds.constant = true end
  return kinds
end

-- Sums of the elements, in at most three micro-batches each.
local function shown(groups, base)
  local numbers, of_base = {}, {}
  for _, group in pairs(groups) do
    local ranks = {}
    for r, each in ipairs(group) do ranks[r] = ("%.6g"):format(each.s1) end
    if #numbers < 3 then numbers[#numbers + 1] = table.concat(ranks, " and ") end
  end
  for i = 1, math.min(#base, 3) do of_base[i] = ("%.6g"):format(base[i].s1) end
  return ("its sum is %s in micro-batches%s, and %s at sp 1"):format(table.concat(numbers, ", "),
    numbers[1] and numbers[1]:find "and" and " (on ranks 0 and 1)" or "",
    table.concat(of_base, ", "))
end

--- Compares each value and gradient of the base with those of a layout, in the order in which the
--- base computed them.
---@param base moonring.TraceEntry[][] by rank
---@param other moonring.TraceEntry[][] by rank
---@param sp integer
---@return { entry: moonring.TraceEntry, kinds?: table, gradient_kinds?: table, shown: string }[]
function fingerprints.compare(base, other, sp)
  local of_base, of_other, seen, list = { fingerprints.by_key(base[1]) }, {}, {}, {}
  for r, entries in ipairs(other) do of_other[r] = fingerprints.by_key(entries) end
  for _, entry in ipairs(base[1]) do
    if not seen[entry.key] then
      seen[entry.key] = true
      local one = { entry = entry }
      for _, part in ipairs { "value", "gradient" } do
        local _, wanted = grouped(of_base, entry.key, part, 1)
        local groups, all = grouped(of_other, entry.key, part, sp)
        if #wanted > 0 then
          one[part == "value" and "kinds" or "gradient_kinds"] = fingerprints.kinds(groups, all,
            wanted)
          if part == "value" then one.shown = shown(groups, wanted) end
        end
      end
      list[#list + 1] = one
    end
  end
  return list
end

return fingerprints
