---@meta moonring.native.serve

--- Native functions for `moonring serve` (lua/serve): the door to clients, and the messages that it
--- exchanges with them.
---@class moonring.native.serve
local serve = {}

--- Raises the error that `open` would raise for this address. Errors: UNAVAILABLE if the port is in
--- use; INVALID_ARGUMENT if the host is no IP address.
---@param host string
---@param port integer
function serve.check_address(host, port) end

--- Returns the key in a file. If there is no file, makes a key, "tml-" and 32 hexadecimal digits,
--- and writes it to one that only the user can read. Errors: INVALID_ARGUMENT if the file has no
--- key; PERMISSION_DENIED under --sandbox.
---@param path string
---@return string
function serve.kept_key(path) end

---@class moonring.ServedModel
---@field name string shown to clients
---@field names? string[] further names that clients may give
---@field max_context_length? integer
---@field trainable? boolean default true
---@field sampleable? boolean default true

---@class moonring.ServeDoorOptions
---@field key string that clients must send
---@field folder string has the journal of requests; only one process may use it
---@field external? string folder with MODEL/NAME/FILE that clients may download, if there is a fact
---   "weights" of tinker://MODEL/external_weights/NAME; default: none
---@field port? integer 0 or absent: any free port
---@field host? string IP address to listen on; default 127.0.0.1
---@field base_models? moonring.ServedModel[]
---@field states? table<string, integer> for each model with a state on disk, the last seq_id in it
---@field poll_seconds? number how long a poll waits for a result; default 20

--- Opens the door: reads the journal, and begins to listen on a thread of its own. Until the door
--- is closed, SIGINT, SIGTERM and SIGHUP end `next` instead of the process, except in an embedded
--- runtime; a second signal of the same kind ends the process. Errors: UNAVAILABLE if the port is
--- in use; INVALID_ARGUMENT if the folder has a file that is no journal; PERMISSION_DENIED under
--- --sandbox.
---@param options moonring.ServeDoorOptions
---@return moonring.ServeDoor
function serve.open(options) end

--- The door of a service (lua/serve/service.h). Jobs come through it, and results leave.
---@class moonring.ServeDoor
local ServeDoor = {}

--- The port on which the service listens.
---@return integer
function ServeDoor:port() end

--- Waits for the next job; nil if none came in this time, or if a signal came.
---@param seconds number
---@param routes? string[] only jobs of these routes; absent: all
---@return moonring.serve.Job?
function ServeDoor:next(seconds, routes) end

--- Records the result of a promise, for which the client polls.
---@param id string
---@param body string
---@param type? string default application/json
function ServeDoor:done(id, body, type) end

--- Fails a promise.
---@param id string
---@param message string
---@param category? "user" | "server" default "user": the client can correct it
function ServeDoor:fail(id, message, category) end

--- Answers a held request.
---@param id string
---@param status integer
---@param type string media type
---@param body string
function ServeDoor:reply(id, status, type, body) end

--- Begins an answer to a held request that is sent in parts.
---@param id string
---@param type string media type
function ServeDoor:begin(id, type) end

--- Sends a part of such an answer. Returns false, and sends nothing, if the client has left, or if
--- more than 1 MiB would wait to be read by it.
---@param id string
---@param part string
---@return boolean
function ServeDoor:send(id, part) end

--- Ends such an answer.
---@param id string
function ServeDoor:finish(id) end

--- Whether the client of a held request has left.
---@param id string
---@return boolean
function ServeDoor:gone(id) end

--- Makes a fact known, from which the door answers questions at once.
---@param kind "model" | "run" | "weights" | "sampler" | "checkpoint"
---@param id string
---@param json string
function ServeDoor:publish(kind, id, json) end

--- Removes such a fact.
---@param kind string
---@param id string
function ServeDoor:withdraw(kind, id) end

--- Records that a model's state on disk contains all requests up to this seq_id: they need not run
--- again after a restart.
---@param model_id string
---@param seq_id integer
function ServeDoor:saved(model_id, seq_id) end

--- Records that the process is about to end because it was asked to: this end is no crash of the
--- jobs without a result.
function ServeDoor:interrupt() end

--- Returns the lines for the terminal since the last call: what the journal dropped, errors of
--- writing it, sessions that have ended without heartbeats.
---@return string[]
function ServeDoor:notes() end

--- The first signal that asked the service to end; 0: none.
---@return integer
function ServeDoor:ended() end

--- Stops listening. Promises without a result stay in the journal.
function ServeDoor:close() end

---@class moonring.LossDatum
---@field tokens moonring.Tensor int64 [N]
---@field inputs table<string, moonring.Tensor> float32 or int64, dense, in the client's shape

---@class moonring.LossRequest
---@field model_id string
---@field seq_id integer
---@field loss_fn string
---@field loss_fn_config table<string, number | string>
---@field forward_only boolean
---@field data moonring.LossDatum[]

--- Reads the body of forward_backward or forward. Errors: INVALID_ARGUMENT, with the datum, the
--- field, what came and what was expected; UNIMPLEMENTED for pictures and audio.
---@param body string
---@param type string its Content-Type: JSON if "json" is in it, else protobuf
---@return moonring.LossRequest
function serve.read_forward_backward(body, type) end

---@class moonring.LossResult
---@field metrics? table<string, number> by NAME:REDUCTION, such as "loss:sum"
---@field outputs table<string, moonring.Tensor>[] for each datum the same fields; float32 or int64

--- Writes the result of forward_backward or forward as protobuf (application/x-protobuf).
---@param result moonring.LossResult
---@return string
function serve.write_forward_backward(result) end

--- The likeliest tokens at each position, the likeliest first. A row may have fewer than k.
---@class moonring.SampledTop
---@field k integer
---@field ids integer[][]
---@field logprobs number[][]

---@class moonring.SampledSequence
---@field tokens integer[]
---@field logprobs? number[] one for each token
---@field stop_reason "stop" | "length"
---@field topk? moonring.SampledTop

---@class moonring.SampleResult
---@field sequences moonring.SampledSequence[]
---@field prompt_logprobs? number[] one for each token of the prompt; nan: none
---@field topk_prompt_logprobs? moonring.SampledTop
---@field prompt_cache_hit_tokens? integer
---@field target_prompt_logprobs? moonring.Tensor [T - 1, K], for T tokens of the prompt
---@field alt_tokens? moonring.Tensor
---@field alt_logprobs? moonring.Tensor

--- Writes the result of sampling as protobuf (application/x-protobuf).
---@param result moonring.SampleResult
---@return string
function serve.write_sample(result) end

return serve
