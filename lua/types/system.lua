---@meta moonring.native.system

--- Operating system functions for scripts: files, JSON, YAML, the clock, and the ranks of this run.
---@class moonring.system
---@field null lightuserdata the null of JSON and YAML
local system = {}

--- Reads a file. Errors: NOT_FOUND; INVALID_ARGUMENT for a folder.
---@param path string
---@return string
function system.read(path) end

--- Reads at most this many bytes of a file from an offset: fewer if the file ends earlier, ""
--- beyond its end. Errors: NOT_FOUND.
---@param path string
---@param offset integer from 0
---@param bytes integer
---@return string
function system.read_part(path, offset, bytes) end

--- Writes a file completely or not at all. Errors: PERMISSION_DENIED.
---@param path string
---@param text string
function system.write(path, text) end

--- Creates a folder and its parents, and checks that files can be written in the folder. Errors:
--- PERMISSION_DENIED.
---@param path string
function system.make_folder(path) end

--- Raises the error that make_folder would raise for this path. Creates nothing.
---@param path string
function system.check_make_folder(path) end

--- Makes the process survive when the reader of its stdout ends: SIGPIPE is ignored.
--- moonring.run.open calls this function.
function system.outlive_stdout() end

--- Returns a text that identifies the process that started this one: "HOST:PROCESS:START". It is
--- never reused. If a launcher restarts its ranks, they get the same text as before.
---@return string
function system.parent_id() end

--- Removes a file, or a folder with its contents. Does nothing if the path does not exist.
---@param path string
function system.remove(path) end

--- The sorted names in a folder; {} if the folder does not exist.
---@param path string
---@return string[]
function system.list(path) end

--- Whether a file or folder exists.
---@param path string
---@return boolean
function system.exists(path) end

--- Whether a folder exists.
---@param path string
---@return boolean
function system.is_folder(path) end

--- The absolute path, without "." and "..".
---@param path string
---@return string
function system.absolute(path) end

--- Returns the position, from 1, of the first occurrence of `sought` in `text` at `from` or later;
--- nil if there is none. Takes linear time.
---@param text string
---@param sought string
---@param from integer
---@return integer?
function system.find_text(text, sought, from) end

--- Finds the first match of a Lua pattern that moonring.pattern_compiler has compiled. Each step of
--- the search counts as one instruction of a sandboxed script.
---@param text string
---@param program string the compiled pattern
---@param from integer
---@param anchored boolean whether the match must begin at `from`
---@param captures integer number of captures in the pattern
---@return integer? begin position of the match, from 1; nil without a match
---@return integer? after the position after the match
---@return integer? ... begin and end of each capture; an end of -1 marks a position capture
function system.search_pattern(text, program, from, anchored, captures) end

--- Replaces control characters in a text by escapes ("\x1b"; newline and tab stay), and so
--- characters that reorder the display, and bytes that are not UTF-8. Use it before untrusted text
--- is printed on a terminal.
---@param text string
---@return string
function system.visible(text) end

--- Whether an untrusted file name stays inside the folder to which it is appended: it is not an
--- absolute path, and contains no ".." and no control character.
---@param name string
---@return boolean
function system.is_inside_name(name) end

--- The SHA-1 of bytes, in 40 hexadecimal digits.
---@param bytes string
---@return string
function system.sha1(bytes) end

--- Parses a JSON text; a null becomes `moonring.null`. Errors: INVALID_ARGUMENT with `where`, line
--- and column.
---@param text string
---@param where? string name of the text in error messages
---@return any
function system.json_decode(text, where) end

--- Converts a value to JSON, with sorted keys. A table with an element 1, or an empty table,
--- becomes a list; NaN and infinity become null. Errors: INVALID_ARGUMENT for a value that JSON
--- cannot represent.
---@param value any
---@param indent? integer spaces for each level; default: one line
---@return string
function system.json_encode(value, indent) end

--- Parses a YAML text. Numbers are read as by PyYAML, with OmegaConf's floats (32_768, 0x10, 2e-5);
--- only true and false are booleans. Errors: INVALID_ARGUMENT with `where`, line and column, for
--- malformed text and for a duplicate key.
---@param text string
---@param where? string name of the text in error messages
---@return any value
---@return table<string, integer> lines the line of each top-level key, from 1
---@return table<string, string> texts the source text of top-level scalar values
function system.yaml_decode(text, where) end

--- Returns the time of a monotonic clock in seconds, from an arbitrary start.
---@return number
function system.clock() end

--- Returns " (did you mean 'x'?)" for the known name x that is nearest to `name`, or "" if none is
--- near.
---@param name string
---@param known string[]
---@return string
function system.did_you_mean(name, known) end

--- Returns the line of the user's script that is running, as a prefix for messages: "mine.lua:12:
--- "; "" if no script is running.
---@return string
function system.script_place() end

--- Where a Lua function is defined, for messages: "mine.lua:12"; "" for a native function.
---@param f function
---@return string
function system.function_place(f) end

--- Whether stderr is a terminal.
---@return boolean
function system.is_terminal() end

--- The value of an environment variable, or nil if it is not set.
---@param name string
---@return string?
function system.environment(name) end

--- Number of ranks according to the environment variables of torchrun or Slurm, including this
--- process; 0 if they are not set. Errors: INVALID_ARGUMENT if the variables contradict each other.
---@return integer
function system.world_size() end

--- Whether this process may start ranks: true unless it is a runtime in another program.
---@return boolean
function system.starts_ranks() end

--- The value of -n on the command line; 0 if it was not given.
---@return integer
function system.requested_ranks() end

--- The value of --device on the command line; "auto" if it was not given.
---@return "auto" | "cpu" | "cuda"
function system.requested_device() end

--- Turns this process into the launcher of `ranks` processes with the same command line. Does not
--- return: the launcher ends with the exit code of the ranks. Scripts call `moonring.launch`
--- instead. Errors: INVALID_ARGUMENT for more ranks than this machine can start
--- (lua/host/launcher.h).
---@param ranks integer
function system.launch(ranks) end

--- Allows this rank's launcher, if there is one, to restart the run up to this many times in total.
---@param restarts integer
function system.offer_restarts(restarts) end

--- After this call, SIGTERM, SIGINT and SIGHUP are recorded for preemption() and do not end the
--- process; signals that are ignored stay ignored. (SIGUSR1 is recorded from the start of the
--- process.) A second signal of the same kind ends the process at once; lua/host/signal_count.h
--- says which signals count as a second one. Does nothing in an embedded runtime, because signals
--- belong to the application.
---@param at_end? boolean true: no further step follows, so the message on stderr about a signal
---   says that the run ends by itself; a later call may set this
function system.catch_preemption(at_end) end

--- After this call, SIGTERM, SIGINT and SIGHUP end the process, as by default.
function system.release_preemption() end

--- Returns the signal that asked this process to save and end, or only to save (SIGUSR1, returned
--- once); nil if there was none. In an embedded runtime returns "cancelled" after the runtime was
--- cancelled.
---@return "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "cancelled" | nil
function system.preemption() end

--- Ends the process by the default action of the signal that asked for it. In an embedded runtime
--- ends the run with the error CANCELLED.
---@param wish "SIGTERM" | "SIGINT" | "SIGHUP" | "cancelled" the value that preemption() returned
function system.end_as_preempted(wish) end

--- Used by the sandbox: raises an error if the thread's native stack is nearly full
--- (lua/binding/native_stack.h).
function system.check_stack() end

--- Used by the sandbox: reports that a script caught an error. Each such error counts towards the
--- script's instruction limit (lua/vm/limits.h).
function system.count_caught() end

--- Passes a table to the application that embeds the runtime (lua/embed.h); does nothing in a
--- program without one. Training runs call it for each logged step and each evaluation.
---@param what table
function system.tell_progress(what) end

--- Writes a line to the log callback of an embedded runtime, which has no stdout and stderr; does
--- nothing elsewhere.
---@param kind "output" | "note"
---@param line string
function system.say(kind, line) end

--- Moonring's version.
---@return string
function system.version() end

--- LibTorch's version.
---@return string
function system.torch_version() end

--- Calls a function when the script has ended: with its error and the error's code, or with
--- nothing. Errors of the function are ignored. It must not use other ranks, which may have died.
---@param f fun(why: string?, code: string?)
function system.at_end(f) end

--- Call this when the first step begins: a later failure ends the process with exit code 1 instead
--- of 2. With `false`, nothing has been trained yet after all: it ends with 2 again.
---@param started? boolean default true
function system.started(started) end

--- The words of this process's command line, the program first; empty in an embedded runtime.
---@return string[]
function system.command() end

--- The names of Moonring's built-in scripts, which are its commands.
---@return string[]
function system.commands() end

--- The path of a command's script.
---@param name string
---@return string
function system.script_path(name) end

--- The path of the HTML page from which a run's report is made.
---@return string
function system.report_page() end

--- The path of one of Moonring's Lua modules; the name "config" stands for moonring.config.
---@param name string
---@return string
function system.module_path(name) end

--- The path of a model that is part of this program. Errors: NOT_FOUND, with the available names.
---@param name string such as "smollm2"
---@return string
function system.builtin(name) end

return system
