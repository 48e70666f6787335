--- moonring repl [MODEL [key=value...]]: an interactive Lua prompt with all of Moonring. Prints the
-- value of each line; Tab completes names, help(x) describes x, Ctrl-C interrupts, Ctrl-D quits.
-- MODEL is opened as the globals `model` and `tokenizer`, with the keys of `chat`. With -n RANKS
-- each line runs on all ranks. The history is stored in ~/.local/state/moonring/history (or under
-- XDG_STATE_HOME). If stdin is not a terminal, its lines are run without a prompt.
local prompt = require "moonring.prompt"
prompt.run(arg)
