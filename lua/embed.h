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
 *   if (moonring_run_command(runtime, "train", 2, words) != MOONRING_OK)
 * puts(moonring_last_error(runtime)); moonring_destroy(runtime);
 *
 * Threads. A process may have any number of runtimes, on any number of threads; they share nothing
 * but the machine. One runtime is for one thread at a time (a second one that calls it meanwhile,
 * or a callback that calls it again, gets MOONRING_INVALID_ARGUMENT); which thread that is may
 * change between calls. moonring_cancel alone may come from any thread at any time before
 * moonring_destroy.
 *
 * The process stays its owner's: no signal handler, no exit, no fork, no change of folder or
 * environment, nothing on stdout or stderr. A runtime is one rank; with RANK and WORLD_SIZE in the
 * environment it is one of several, else a configuration that wants more ranks is refused. (Of
 * several, the process must ignore SIGPIPE, or have a handler: else a rank that dies ends those
 * that write to it.) No C++ exception and no Lua error leaves a function.
 *
 * Scripts are confined unless options say otherwise: they have no files outside of the roots, and
 * no io, os.execute, ffi, environment or bytecode. So are the commands, for their part: whatever a
 * configuration names (models, data sets, output, checkpoints) must lie below the roots. A runtime
 * interprets Lua and does not compile it, so that instructions can be counted and a loop cancelled;
 * what takes time in a training run is not Lua.
 *
 * Strings are UTF-8 and end with a NUL. What a function takes is the caller's and copied where it
 * is kept; whose a returned one is, is said below.
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
  MOONRING_INVALID_ARGUMENT = 1,  /* of this call, of a configuration, of data */
  MOONRING_NOT_FOUND = 2,         /* a file, a command, a function */
  MOONRING_PERMISSION_DENIED = 3, /* outside of the roots, or what a confined script may not do */
  MOONRING_EXHAUSTED = 4, /* a limit on instructions or memory, the machine's memory, the disk */
  MOONRING_CANCELLED = 5, /* by moonring_cancel */
  MOONRING_FAILED = 6     /* anything else: moonring_last_error says what */
} moonring_code;

typedef enum moonring_log_kind {
  MOONRING_LOG_OUTPUT = 0, /* what a script prints */
  MOONRING_LOG_NOTE = 1, /* what Moonring tells of a run, and a script of errors; after an error of
                            the script's the calls that led to it */
  MOONRING_LOG_WARNING = 2 /* LibTorch's warnings */
} moonring_log_kind;

/* Called on the thread that runs the script, between two of its instructions; `line` and `json`
 * live until they return. They must not call the runtime, but for moonring_cancel, and must not
 * throw or jump. */
typedef void (*moonring_log_callback)(void* context, moonring_log_kind kind, const char* line);

/* At each logged step (logging_steps)
 * {"event":"step","step":k,"total_steps":n,"epoch":..,"loss":..,"lr":..,"grad_norm":..,
 * "tokens":..,"metrics":{..}},
 * and at each evaluation
 * {"event":"evaluation","step":k,"total_steps":n,"epoch":..,"metrics":{"eval_loss":..}}; and what a
 * script hands to moonring.system.tell_progress. */
typedef void (*moonring_progress_callback)(void* context, const char* json);

/* What is 0 or NULL is at its default. Fields are only ever added at the end; `size` says which of
 * them the caller knows. */
typedef struct moonring_options {
  size_t size;              /* sizeof(moonring_options) */
  const char* assets;       /* the folder that holds lua/moonring and scripts; default: found by the
                               library's own place */
  const char* const* roots; /* folders below which files may be read and written; default: none */
  size_t root_count;
  int unconfined;       /* not 0: scripts have all of Lua, and files anywhere */
  int64_t instructions; /* of Lua, that one call may take; default: any number */
  int64_t memory;       /* bytes of Lua's heap and of tensors; default: any number. Wants
                           moonring_count_memory first */
  int threads; /* LibTorch's, inside one operation, while a call runs; default: as the calling
                  thread has them */
  const char* device; /* "cpu", "cuda"; default: a GPU where there is one */
  moonring_log_callback log;
  moonring_progress_callback progress;
  void* context; /* handed to both */
} moonring_options;

/* Moonring's version, "0.1.0". Static. */
MOONRING_API const char* moonring_version(void);

/* Makes a runtime. Where it cannot, *runtime is NULL and `error` (which may be NULL), of
 * `error_size` bytes, has the words, cut to fit. `options` may be NULL. */
MOONRING_API moonring_code moonring_create(const moonring_options* options,
                                           moonring_runtime** runtime, char* error,
                                           size_t error_size);

/* Ends a runtime, with what its scripts hold; waits for a checkpoint that is on its way to the
 * disk. No call may be running on it. NULL is fine. */
MOONRING_API void moonring_destroy(moonring_runtime* runtime);

/* Runs a Lua file, which may lie anywhere; `argv`: its arguments, without its name. */
MOONRING_API moonring_code moonring_run_file(moonring_runtime* runtime, const char* path, int argc,
                                             const char* const* argv);

/* Runs Lua text; `name` is for its error messages. */
MOONRING_API moonring_code moonring_run_string(moonring_runtime* runtime, const char* text,
                                               const char* name, int argc, const char* const* argv);

/* Runs one of Moonring's commands, as `moonring COMMAND ARGV...` would: train, preprocess, export,
 * probe, plan, inspect, ... */
MOONRING_API moonring_code moonring_run_command(moonring_runtime* runtime, const char* command,
                                                int argc, const char* const* argv);

/* Calls a global function that a script defined. `json`: its one argument, NULL for none. *result
 * (where `result` is not NULL): what it returns first, as JSON, "null" for nothing; the caller's,
 * who gives it to moonring_free. NULL after an error. */
MOONRING_API moonring_code moonring_call(moonring_runtime* runtime, const char* function,
                                         const char* json, char** result);

MOONRING_API void moonring_free(char* text);

/* Ends the call that is running on the runtime, which then returns MOONRING_CANCELLED; and every
 * later call at once: a cancelled runtime stays so. With `save` 0 as soon as Lua runs again, after
 * the forward or backward pass at the most; a checkpoint half written is no checkpoint. Else
 * `train` goes on to the end of the step, saves a checkpoint that resume_from_checkpoint can go on
 * from, and ends then; other scripts go on until they are cancelled without it. From any thread;
 * NULL is fine. */
MOONRING_API void moonring_cancel(moonring_runtime* runtime, int save);

/* What went wrong in the last call on this runtime, "" where nothing did: "PERMISSION_DENIED:
 * --sandbox: /etc/passwd is outside of the roots (/data)". The runtime's, until the next call on
 * it. */
MOONRING_API const char* moonring_last_error(const moonring_runtime* runtime);

/* Puts a counting allocator in front of LibTorch's for CPU tensors, for the whole process and for
 * ever: what a limit on memory and `memory_report: true` need. It must be called while no other
 * thread makes tensors. Without it everything else works. */
MOONRING_API void moonring_count_memory(void);

#ifdef __cplusplus
}
#endif

#endif /* MOONRING_LUA_EMBED_H_ */
