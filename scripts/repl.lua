--- moonring repl [MODEL [key=value...]]: a prompt to try Lua and the whole of Moonring at. Shows
-- the value of what is typed; Tab completes, help(x) tells of x, Ctrl-C stops what runs, Ctrl-D
-- leaves. MODEL: opened as the globals `model` and `tokenizer`, with the keys that `chat` takes.
-- With -n RANKS each line runs on all ranks. Lines are kept in ~/.local/state/moonring/history (or
-- under XDG_STATE_HOME). Where stdin is no terminal its lines are run as they are.
local prompt = require "moonring.prompt"
prompt.run(arg)
