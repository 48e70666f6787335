---@meta moonring.native.system

--- What scripts need of the machine: files, JSON, YAML, the clock, and the ranks of this run.
---@class moonring.system
---@field null lightuserdata JSON's and YAML's null
local system = {}

--- The bytes of a file. Errors: NOT_FOUND; INVALID_ARGUMENT for a folder.
---@param path string
---@return string
function system.read(path) end

--- At most so many bytes of a file from an offset on; fewer at its end, "" beyond it. Errors:
--- NOT_FOUND.
---@param path string
---@param offset integer from 0
---@param bytes integer
---@return string
function system.read_part(path, offset, bytes) end

--- Writes a file whole or not at all. Errors: PERMISSION_DENIED.
---@param path string
---@param text string
function system.write(path, text) end

--- Makes a folder and those above it, and proves that a file can be written in it. Errors:
--- PERMISSION_DENIED.
---@param path string
function system.make_folder(path) end

--- Fails as make_folder would, and makes nothing.
---@param path string
function system.check_make_folder(path) end

--- Keeps the process alive where nobody reads its stdout any more. Otherwise a script that prints
--- ends by SIGPIPE then. moonring.run.open calls it.
function system.outlive_stdout() end

--- What started this process: "HOST:PROCESS:START", which no later process has. Ranks that their
--- launcher starts again have the same one.
---@return string
function system.parent_id() end

--- Removes a file, or a folder with all that is in it. Nothing there is fine.
---@param path string
function system.remove(path) end

--- The names in a folder, sorted; {} where there is none.
---@param path string
---@return string[]
function system.list(path) end

--- Whether there is a file or folder.
---@param path string
---@return boolean
function system.exists(path) end

--- Whether there is a folder.
---@param path string
---@return boolean
function system.is_folder(path) end

--- The path from the root, without dots.
---@param path string
---@return string
function system.absolute(path) end

--- Where a text is first in another, counted from 1. Linear in both.
---@param text string
---@param sought string
---@param from integer
---@return integer?
function system.find_text(text, sought, from) end

--- Where a compiled pattern (moonring.pattern_compiler) first matches, each step of the search
--- counted as an instruction.
---@param text string
---@param program string
---@param from integer
---@param anchored boolean whether it matches at `from` alone
---@param captures integer how many it has
---@return integer? begin counted from 1; nil where there is none
---@return integer? after the place after it
---@return integer? ... of each capture where it begins and ends; -1 of one that is a place
function system.search_pattern(text, program, from, anchored, captures) end

--- A text with its control characters spelt out ("\x1b"; newline and tab stay), with those that
--- reorder what is shown and bytes that are no UTF-8: for a terminal, which would obey them.
---@param text string
---@return string
function system.visible(text) end

--- Whether a name that somebody else gives to a file stays inside the folder that it is joined to:
--- no absolute path, no "..", no control character.
---@param name string
---@return boolean
function system.is_inside_name(name) end

--- The SHA-1 of bytes, in 40 hexadecimal digits.
---@param bytes string
---@return string
function system.sha1(bytes) end

--- A Lua value of a JSON text; null is `moonring.null`. Errors: INVALID_ARGUMENT with `where`, line
--- and column.
---@param text string
---@param where? string names the text in errors
---@return any
function system.json_decode(text, where) end

--- A JSON text, an object's keys sorted. A table with a first element is a list, and so is an empty
--- one; NaN and infinity become null. Errors: INVALID_ARGUMENT for what JSON has not.
---@param value any
---@param indent? integer spaces a level; one line where absent
---@return string
function system.json_encode(value, indent) end

--- A Lua value of a YAML text. Numbers are PyYAML's with OmegaConf's floats (32_768, 0x10, 2e-5),
--- true and false alone are booleans. Errors: INVALID_ARGUMENT with `where`, line and column, for a
--- key given twice too.
---@param text string
---@param where? string names the text in errors
---@return any value
---@return table<string, integer> lines the line of each key of the outermost map, from 1
---@return table<string, string> texts its values that are scalars, as they are written
function system.yaml_decode(text, where) end

--- Seconds since some moment, that never go back.
---@return number
function system.clock() end

--- " (did you mean 'x'?)" for the nearest of the known names, or "".
---@param name string
---@param known string[]
---@return string
function system.did_you_mean(name, known) end

--- "mine.lua:12: ", the line of the user's script that is running, for a message; "" where none is.
---@return string
function system.script_place() end

--- Whether stderr is a terminal.
---@return boolean
function system.is_terminal() end

--- The value of an environment variable, or nil.
---@param name string
---@return string?
function system.environment(name) end

--- How many ranks the environment (torchrun's or Slurm's) says there are, this process among them;
--- 0 where it says nothing. Errors: INVALID_ARGUMENT where it contradicts itself.
---@return integer
function system.world_size() end

--- -n of the command line; 0 where it was not given.
---@return integer
function system.requested_ranks() end

--- --device of the command line; "auto" where it was not given.
---@return "auto" | "cpu" | "cuda"
function system.requested_device() end

--- Becomes the launcher of `ranks` processes of this very command and ends with their exit code:
--- does not return. `moonring.launch` is for scripts. Errors: INVALID_ARGUMENT for more than this
--- machine starts (lua/launcher.h).
---@param ranks integer
function system.launch(ranks) end

--- Tells the launcher of this rank, where it has one, that the run may be started again so many
--- times in all.
---@param restarts integer
function system.offer_restarts(restarts) end

--- From here on SIGTERM, SIGINT and SIGHUP are noted, for preemption(), as SIGUSR1 is from the
--- process's beginning; those that are ignored stay so. The second of a kind ends the process at
--- once (lua/signal_count.h says which is a second). Nothing in an embedded runtime, which leaves
--- signals to whom it is embedded in.
---@param at_end? boolean no further step comes: the first signal is answered so; may be said later
function system.catch_preemption(at_end) end

--- From here on SIGTERM, SIGINT and SIGHUP end the process at once again.
function system.release_preemption() end

--- The signal by which this process was asked to save and to end, or (SIGUSR1, once) to save; nil
--- where none came. In an embedded runtime "cancelled" once it was.
---@return "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "cancelled" | nil
function system.preemption() end

--- Ends the process as that signal does where nobody catches it; in an embedded runtime ends the
--- run with the error CANCELLED.
---@param wish "SIGTERM" | "SIGINT" | "SIGHUP" | "cancelled" what preemption() gave
function system.end_as_preempted(wish) end

--- For the sandbox: an error where the thread's stack comes to its end
--- (lua/binding/native_stack.h).
function system.check_stack() end

--- For the sandbox: an error was caught, which counts among a script's instructions (lua/limits.h).
function system.count_caught() end

--- Hands a table to whoever follows the run (lua/embed.h); nothing where nobody does. A run tells
--- of each logged step and each evaluation.
---@param what table
function system.tell_progress(what) end

--- A line for the log of an embedded runtime; elsewhere nothing. print and io.stderr lead here
--- there.
---@param kind "output" | "note"
---@param line string
function system.say(kind, line) end

--- Moonring's version.
---@return string
function system.version() end

--- LibTorch's version.
---@return string
function system.torch_version() end

--- Says that the first step begins: what fails from now on ends the process with exit code 1, not
--- 2.
function system.started() end

--- The names of Moonring's own scripts, which are its commands.
---@return string[]
function system.commands() end

--- Where the script of a command is.
---@param name string
---@return string
function system.script_path(name) end

--- Where the page is that a run's report is made of.
---@return string
function system.report_page() end

--- Where one of Moonring's own Lua modules is: "config" for moonring.config.
---@param name string
---@return string
function system.module_path(name) end

--- The file of a model that comes with this binary. Errors: NOT_FOUND, naming those that there are.
---@param name string "smollm2"
---@return string
function system.builtin(name) end

return system
