/* Fine-tunes inside a C program: fine_tune ROOT CONFIG.yaml [key=value...]
 *
 * Nothing outside of the folder ROOT is read or written. Progress goes to stdout, the log to
 * stderr; Ctrl-C ends the run after the step, with a checkpoint. */
#include <signal.h>
#include <stdio.h>

#include "lua/embed.h"

static moonring_runtime* running = NULL;

/* The handler is this program's own: Moonring installs none. A cancel is one store into an atomic.
 */
static void on_interrupt(int signal) {
  (void)signal;
  moonring_cancel(running, 1);
}

static void on_log(void* context, moonring_log_kind kind, const char* line) {
  (void)context;
  fprintf(stderr, "%s%s\n", kind == MOONRING_LOG_WARNING ? "warning: " : "", line);
}

static void on_progress(void* context, const char* json) {
  (void)context;
  printf("%s\n", json);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s ROOT CONFIG.yaml [key=value...]\n", argv[0]);
    return 2;
  }
  const char* roots[1];
  roots[0] = argv[1];
  moonring_options options = {.size = sizeof(options)};
  options.roots = roots;
  options.root_count = 1;
  options.log = on_log;
  options.progress = on_progress;

  char why[1024];
  if (moonring_create(&options, &running, why, sizeof(why)) != MOONRING_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  signal(SIGINT, on_interrupt);
  const moonring_code code =
      moonring_run_command(running, "train", argc - 2, (const char* const*)argv + 2);
  if (code != MOONRING_OK)
    fprintf(stderr, "%s (code %d)\n", moonring_last_error(running), (int)code);
  signal(SIGINT, SIG_DFL);
  moonring_destroy(running);
  return (int)code;
}
