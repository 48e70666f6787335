-- Luacheck's settings: `luacheck .` at the repository's root reads them, and so does
-- //tests/layering:luacheck_test. What it warns of is mended in the code; what is left out here is
-- meant.
std = "luajit"
exclude_files = { "bazel-*" }

ignore = {
  "212/self", -- a method has its object, whether it looks at it or not
  "581", -- `not (x > y)` is true of NaN, `x <= y` is not
}

-- Declarations alone, for editors and the pages of the Lua API: no function has a body.
files["lua/types"] = {
  ignore = {
    "212", -- arguments
    "241", -- classes, which get methods and are not returned
  },
}

-- The sandbox takes from LuaJIT's globals, or replaces, what each file names here.
files["lua/moonring/sandbox/init.lua"] = {
  globals = {
    "coroutine.resume", "coroutine.wrap", "io", "os", "package.loadlib", "package.searchpath",
    "package.seeall", "pcall", "print", "string.dump", "xpcall",
  },
}
files["lua/moonring/sandbox/outlet.lua"] = {
  globals = {
    "io.flush", "io.output", "io.read", "io.stderr", "io.stdout", "io.write", "os.exit", "print",
  },
}
files["lua/moonring/sandbox/patterns.lua"] = { globals = { "string", "table.sort" } }
