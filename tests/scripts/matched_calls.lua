-- Calls that differ between rank 0 and the other ranks, caught one after another on the same mesh
-- (sp 2). Each rank of rank 0's group must get the error with all calls and their lines. Prints
-- "all found" on each rank.
local moonring = require "moonring"
local mesh = moonring.comm.mesh { sp = 2, deadline = 60 }
local me, size = mesh:rank(), mesh:size()

local function line_of(f) return debug.getinfo(f, "S").linedefined end

-- `on`: "world" or "sp", the group of both calls. `first` is called by rank 0, `second` by the
-- others; each is a function of one line, whose call is described by its name. (A call in `return`
-- is a tail call, and has the line of the function's caller.)
local function differ(on, first_name, first, second_name, second)
  local mine = me == 0 and first or second
  local ok, why = pcall(mine)
  local others = "rank 1 called "
  if on == "world" and size == 4 then others = "ranks 1, 2, 3 called " end
  if on == "sp" and me > 1 then return assert(ok, why) end -- another group, where all agree
  local words = ("rank 0 called %s (matched_calls.lua:%d), %s%s (matched_calls.lua:%d): all ranks")
    :format(first_name, line_of(first), others, second_name, line_of(second))
  assert(not ok, "no error for " .. words)
  assert(why.code == "ABORTED", tostring(why))
  assert(why.message:find(words, 1, true), tostring(why) .. "\nexpected " .. words)
end

local ten, long = moonring.ones(10), moonring.ones(1000)
local whole, double = moonring.ones(10, { dtype = "int64" }), moonring.ones(10, { dtype = "fp64" })

for _ = 1, 2 do
  differ("world", "mesh:sum", function() local x = mesh:sum(1) return x end,
    "mesh:max", function() local x = mesh:max(1) return x end)
  differ("world", "mesh:sum", function() local x = mesh:sum(1) return x end,
    "mesh:barrier", function() mesh:barrier() end)
  differ("world", "mesh:gather", function() local x = mesh:gather "text" return x end,
    "mesh:gather_numbers", function() local x = mesh:gather_numbers(1) return x end)
  differ("sp", "mesh:sum_sp of int64 [10]", function() local x = mesh:sum_sp(whole) return x end,
    "mesh:sum_sp of fp64 [10]", function() local x = mesh:sum_sp(double) return x end)
  differ("sp", "mesh:sum_sp of fp32 [10]", function() local x = mesh:sum_sp(ten) return x end,
    "mesh:sum_sp of fp64 [10]", function() local x = mesh:sum_sp(double) return x end)
  differ("sp", "mesh:sum_sp of fp32 [10]", function() local x = mesh:sum_sp(ten) return x end,
    "mesh:sum_sp of fp32 [1000]", function() local x = mesh:sum_sp(long) return x end)
  differ("sp", "mesh:same_sp", function() local x = mesh:same_sp(3) return x end,
    "mesh:gather_sp", function() local x = mesh:gather_sp "text" return x end)

  -- Legal: other values, other lines, texts of other lengths, empty ones, too.
  local total = size * (size - 1) / 2
  assert((me == 0 and mesh:sum(0) or mesh:sum(me)) == total)
  assert(mesh:max(me) == size - 1 and mesh:max(-me) == 0)
  for rank, number in ipairs(mesh:gather_numbers(me + 0.5)) do assert(number == rank - 0.5) end
  for rank, text in ipairs(mesh:gather(("x"):rep(me))) do assert(#text == rank - 1) end
  assert(mesh:gather_sp(me % 2 == 0 and "" or "long")[2] == "long")
  assert(mesh:same_sp(7) and not mesh:same_sp(me))
  local sum = mesh:sum_sp(ten * (mesh:sp_rank() + 1))
  assert(sum:sum():item() == 30 and mesh:sum_sp(moonring.zeros(0)):size(0) == 0)
  assert(mesh:sum_dp(2 ^ 40 + mesh:dp_rank()) == (size == 4 and 2 ^ 41 + 1 or 2 ^ 40))
  mesh:barrier()
end
print "all found"
