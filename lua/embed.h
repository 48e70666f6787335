#ifndef MOONRING_LUA_EMBED_H_
#define MOONRING_LUA_EMBED_H_

/* Moonring inside another program: libmoonring.so, for C99 and whatever calls C.
 *
 *   moonring_options options = {.size = sizeof(options)};
 *   const char* roots[] = {"/data/jobs/7"};
 *   options.roots = roots, options.root_count = 1;
 *   moonring_runtime* runtime = NULL;
 *   char why[512];
 *   if (moonring_create(&options, &runtime, why, sizeof(why)) != MOONRING_OK) ...
 *   const char* words[] = {"/data/jobs/7/train.yaml", "num_train_epochs=1"};
 *   const moonring_code code = moonring_run_command(runtime, "train", 2, words);
 *   if (code != MOONRING_OK) puts(moonring_last_error(runtime));
 *   moonring_destroy(runtime);
 *
 * Threads. A process may have any number of runtimes, on any number of threads; runtimes share no
 * state. A runtime may be used by one thread at a time, and by different threads one after another.
 * A concurrent call, or a call from one of its callbacks, returns MOONRING_INVALID_ARGUMENT. Only
 * moonring_cancel and moonring_interrupt may be called from any thread at any time before
 * moonring_destroy.
 *
 * Moonring does not change the process: it installs no signal handlers, does not exit or fork, does
 * not change the working directory or the environment, and writes nothing to stdout or stderr. A
 * runtime is one rank. With RANK and WORLD_SIZE in the environment, or else Slurm's variables of a
 * job step (srun) with several tasks, it is one of several; otherwise a configuration that needs
 * more ranks is refused. (With several ranks, the process must ignore or handle SIGPIPE: otherwise
 * a rank that dies ends the ranks that write to it.) No C++ exception and no Lua error leaves a
 * function.
 *
 * Scripts are sandboxed by default: they cannot access files outside of the roots, and have no io,
 * os.execute, ffi, environment or bytecode. Commands are restricted in the same way: all paths in a
 * configuration (models, data sets, output, checkpoints) must be below the roots. A runtime
 * interprets Lua without JIT compilation, so that instructions can be counted and loops cancelled;
 * Lua takes little of the time of a training run.
 *
 * Strings are UTF-8 and NUL-terminated. Arguments belong to the caller and are copied if they are
 * kept; the owner of a returned string is stated below.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOONRING_API __attribute__((visibility("default")))

typedef struct moonring_runtime moonring_runtime;

typedef enum moonring_code {
  MOONRING_OK = 0,
  MOONRING_INVALID_ARGUMENT = 1,  /* an error in a call's arguments, a configuration or data */
  MOONRING_NOT_FOUND = 2,         /* a file, a command or a function does not exist */
  MOONRING_PERMISSION_DENIED = 3, /* a path outside of the roots, or another sandbox violation */
  MOONRING_EXHAUSTED = 4, /* a limit on instructions or memory, the machine's memory, a full disk */
  MOONRING_CANCELLED = 5, /* by moonring_cancel or moonring_interrupt, on this rank or another */
  MOONRING_FAILED = 6     /* any other error; see moonring_last_error */
} moonring_code;

typedef enum moonring_log_kind {
  MOONRING_LOG_OUTPUT = 0, /* a script's print and stdout */
  MOONRING_LOG_NOTE = 1,   /* Moonring's messages about a run, a script's stderr, and the call stack
                              after a script's error */
  MOONRING_LOG_WARNING = 2 /* LibTorch's warnings */
} moonring_log_kind;

/* Callbacks run on the script's thread, between two of its instructions. `line` and `json` are
 * valid until the callback returns. A callback must not call functions of the runtime, except
 * moonring_cancel and moonring_interrupt, and must not throw or longjmp. */
typedef void (*moonring_log_callback)(void* context, moonring_log_kind kind, const char* line);

/* Receives for each logged step (logging_steps)
 * {"event":"step","step":k,"total_steps":n,"epoch":..,"loss":..,"lr":..,"grad_norm":..,
 * "tokens":..,"metrics":{..}},
 * and for each evaluation
 * {"event":"evaluation","step":k,"total_steps":n,"epoch":..,"metrics":{"eval_loss":..}}; and tables
 * that a script passes to moonring.system.tell_progress. */
typedef void (*moonring_progress_callback)(void* context, const char* json);

/* A field that is 0 or NULL has its default. New versions add fields only at the end; `size` states
 * which fields the caller's version has. */
typedef struct moonring_options {
  size_t size;              /* sizeof(moonring_options) */
  const char* assets;       /* folder with lua/moonring and scripts; default: found relative to the
                               library's path */
  const char* const* roots; /* folders below which files may be read and written; default: none */
  size_t root_count;
  int unconfined;       /* not 0: no sandbox: scripts have all of Lua and all files */
  int64_t instructions; /* limit on Lua instructions in one call; default: none */
  int64_t memory;       /* limit in bytes on the Lua heap and tensors; default: none. Requires
                           moonring_count_memory first */
  int threads; /* LibTorch's threads inside an operation, during a call; default: the setting of the
                  calling thread */
  const char* device; /* "cpu", "cuda"; default: a GPU if there is one */
  moonring_log_callback log;
  moonring_progress_callback progress;
  void* context; /* passed to both callbacks */
} moonring_options;

/* Returns Moonring's version, such as "0.1.0"; a static string. */
MOONRING_API const char* moonring_version(void);

/* Creates a runtime. After an error *runtime is NULL, and `error` (a buffer of `error_size` bytes,
 * may be NULL) contains the message, truncated to fit. `options` may be NULL. */
MOONRING_API moonring_code moonring_create(const moonring_options* options,
                                           moonring_runtime** runtime, char* error,
                                           size_t error_size);

/* Destroys a runtime and all objects of its scripts; waits until a checkpoint that is being written
 * is on disk. No call may be running on it. Does nothing for NULL. */
MOONRING_API void moonring_destroy(moonring_runtime* runtime);

/* Runs a Lua file, which may be outside of the roots; `argv`: its arguments, without its name. */
MOONRING_API moonring_code moonring_run_file(moonring_runtime* runtime, const char* path, int argc,
                                             const char* const* argv);

/* Runs a Lua program given as text; `name` is used in error messages. */
MOONRING_API moonring_code moonring_run_string(moonring_runtime* runtime, const char* text,
                                               const char* name, int argc, const char* const* argv);

/* Runs one of Moonring's commands, as `moonring COMMAND ARGV...` would: train, preprocess, export,
 * probe, plan, inspect, ... */
MOONRING_API moonring_code moonring_run_command(moonring_runtime* runtime, const char* command,
                                                int argc, const char* const* argv);

/* Calls a global function that a script defined. `json`: its argument, NULL for none. If `result`
 * is not NULL, *result is the function's first result as JSON ("null" if there is none), which the
 * caller frees with moonring_free; NULL after an error. */
MOONRING_API moonring_code moonring_call(moonring_runtime* runtime, const char* function,
                                         const char* json, char** result);

/* Frees a string or an array that a function returned. Does nothing for NULL. */
MOONRING_API void moonring_free(void* memory);

/* Cancels a runtime permanently: the running call, and every later one, returns MOONRING_CANCELLED.
 * If `save` is 0, the call ends as soon as Lua code runs, at the latest after the current forward
 * or backward pass; an incomplete checkpoint is never used. Otherwise `train` continues to the end
 * of the step, saves a checkpoint for resume_from_checkpoint, and ends; other scripts continue
 * until they are cancelled with `save` 0. May be called from any thread. Does nothing for NULL. */
MOONRING_API void moonring_cancel(moonring_runtime* runtime, int save);

/* Returns the error message of the last call on this runtime, "" after success: "PERMISSION_DENIED:
 * --sandbox: /etc/passwd is outside of the roots (/data)". The string belongs to the runtime and is
 * valid until the next call on it. */
MOONRING_API const char* moonring_last_error(const moonring_runtime* runtime);

/* Permanently installs a counting allocator for LibTorch's CPU tensors in the whole process.
 * Required for `memory` in the options and for the key `memory_report: true`. Must be called while
 * no other thread creates tensors. */
MOONRING_API void moonring_count_memory(void);

/* DLPack's struct, without a version: dlpack.h of DLPack defines it, and so does LibTorch's
 * <ATen/dlpack.h>. */
struct DLManagedTensor;

/* Calls a global function that a script defined, with tensors: function(value, input 1, input 2,
 * ...), where `value` is the JSON value, or nil for NULL. The function returns a value and then any
 * number of tensors. *result is the value, as in moonring_call; *outputs is an array of the
 * tensors, which the caller frees with moonring_free, and *output_count their number. After an
 * error, and if there is no output, these are NULL and 0. `result`, and `outputs` together with
 * `output_count`, may be NULL: then these results are dropped.
 *
 * No tensor is copied. An input shares its memory with the tensor that the function gets, so the
 * caller sees what the function writes into it; an output shares its memory with the runtime's
 * tensor. The bytes of inputs do not count towards `memory` in the options. For tensors on a GPU
 * the call waits for all work on their device before the function and at the end, so any stream
 * may have written an input, and any stream may read an output.
 *
 * Ownership. The call takes over every input, whatever it returns: when nothing in the runtime uses
 * the tensor any more, its deleter (if it is not NULL) is called once, on the thread of this call,
 * of a later call or of moonring_destroy. So the caller must not use the struct `inputs[i]` after
 * the call. Each output belongs to the caller, who calls its deleter once; it may outlive the
 * runtime. The arrays `inputs` and *outputs themselves do not own their elements. */
MOONRING_API moonring_code moonring_call_tensors(moonring_runtime* runtime, const char* function,
                                                 const char* json,
                                                 struct DLManagedTensor* const* inputs,
                                                 size_t input_count, char** result,
                                                 struct DLManagedTensor*** outputs,
                                                 size_t* output_count);

/* Ends the running call as moonring_cancel with `save` 0 does, but only that call: it returns
 * MOONRING_CANCELLED, and the runtime can be used again. May be called from any thread. Does
 * nothing for NULL, and if no call is running. */
MOONRING_API void moonring_interrupt(moonring_runtime* runtime);

#ifdef __cplusplus
}
#endif

#endif /* MOONRING_LUA_EMBED_H_ */
