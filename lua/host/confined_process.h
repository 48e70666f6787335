#ifndef MOONRING_LUA_HOST_CONFINED_PROCESS_H_
#define MOONRING_LUA_HOST_CONFINED_PROCESS_H_

// The restrictions of --sandbox on the whole process, in addition to those on scripts. The kernel
// opens no files for the process except those below the sandbox's root folders and those that
// Moonring itself needs; and running out of memory ends the process with a message. Only for the
// program `moonring`, not for an application that embeds a runtime (lua/embed.h).
//
// Files that can be opened in addition to the root folders and to Moonring's own files:
//
//   read      The script; loaded libraries, and folders from which libraries may be loaded; files
//             that libraries look up: name service, time zones, locales, certificates, terminals,
//             fonts. About this machine: /proc/cpuinfo, meminfo, stat, its devices in /sys (for
//             Gloo) and cgroups. About this process: its cgroup, maps, memory and descriptors, and
//             its parent's start time, but not its environment.
//   written   /dev/null, /dev/tty. If the build and the machine have CUDA: the GPU's devices and
//             /dev/shm; then /sys and the driver's part of /proc can be read too.
//
// Files that were opened before (standard input and output) stay open.

#include <memory>
#include <string>

#include "base/files/confinement.h"
#include "base/files/kernel_confinement.h"
#include "lua/vm/assets.h"

namespace moonring::lua {

// Returns the files that may be opened, as listed above. `script`: the path of the script that will
// run; "" if the script is not a file.
base::OpenableFiles OpenableUnder(const base::Confinement& confinement, const Assets& assets,
                                  const std::string& script);

// Restricts the process to these files. Call it before any thread that works for scripts starts. If
// the kernel has no Landlock, or MOONRING_LANDLOCK is "off", one line on stderr says that paths are
// only checked before they are opened (`speaks`: false if another rank prints this line).
absl::Status GiveUpOtherFiles(const base::OpenableFiles& files, bool speaks);

// Call this when a script begins. Limits malloc's heap to its current size, plus the memory limit,
// plus a quarter of that limit, plus 64 MiB, so that no single call into C++ can allocate much more
// than the limit. If memory runs out where no caller can report it, the process ends with one line
// and exit code 1. In a build without TCMalloc there is no such limit.
void LimitProcess(const base::Confinement& confinement);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_CONFINED_PROCESS_H_
