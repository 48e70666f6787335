/* `moonring serve` inside a C program: serve MODEL [key=value...]
 *
 * The service runs on a thread of its own; meanwhile this program does its own work on the main
 * thread: here it waits for Ctrl-C or SIGTERM, which end the service. Lines for users (the address
 * and the key for clients) go to stdout, notes to stderr. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "lua/embed.h"

typedef struct service {
  moonring_runtime* runtime;
  int argc;
  const char* const* argv;
  pthread_t main_thread;
  moonring_code code;
} service;

static void on_log(void* context, moonring_log_kind kind, const char* line) {
  (void)context;
  FILE* to = kind == MOONRING_LOG_OUTPUT ? stdout : stderr;
  fprintf(to, "%s\n", line);
  fflush(to);
}

/* Runs the command until it is cancelled, and then wakes the main thread. */
static void* serve(void* argument) {
  service* self = argument;
  self->code = moonring_run_command(self->runtime, "serve", self->argc, self->argv);
  pthread_kill(self->main_thread, SIGTERM);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [key=value...]\n", argv[0]);
    return 2;
  }
  /* Signals are for the main thread alone: threads inherit the mask. */
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);

  /* A sandboxed runtime opens no ports. The service itself confines what clients write to
   * output_dir. */
  moonring_options options = {.size = sizeof(options)};
  options.unconfined = 1;
  options.log = on_log;

  service self = {.main_thread = pthread_self()};
  self.argc = argc - 1;
  self.argv = (const char* const*)argv + 1;
  char why[1024];
  if (moonring_create(&options, &self.runtime, why, sizeof(why)) != MOONRING_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, &self) != 0) {
    fprintf(stderr, "no thread for the service\n");
    return 1;
  }
  int number = 0;
  sigwait(&ends, &number); /* the program's own work would be here */
  moonring_cancel(self.runtime, 0);
  pthread_join(thread, NULL);
  const int failed = self.code != MOONRING_OK && self.code != MOONRING_CANCELLED;
  if (failed) fprintf(stderr, "%s\n", moonring_last_error(self.runtime));
  moonring_destroy(self.runtime);
  return failed ? (int)self.code : 0;
}
