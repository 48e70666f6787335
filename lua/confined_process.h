#ifndef MOONRING_LUA_CONFINED_PROCESS_H_
#define MOONRING_LUA_CONFINED_PROCESS_H_

// What --sandbox asks of the whole process, beside what it asks of a script's words: that the
// kernel opens no file for it but those below the roots and what the host itself needs, and that
// running out of memory ends with a message. Of the host alone: in someone else's program
// (lua/embed.h) the process is not ours.
//
// Openable besides the roots and what a confinement lets be read (the host's own files):
//   read      the script; the libraries that are loaded, and where more may be loaded from; what
//             libraries look up: name service, time zones, locales, certificates, terminals, fonts;
//             of this machine: /proc/cpuinfo, meminfo, stat, its devices as /sys lists them (Gloo
//             asks) and cgroups; of this process: its cgroup, maps, memory and descriptors, when
//             its parent began, and not its environment
//   written   /dev/null, /dev/tty; where build and machine have CUDA, the GPU's devices and
//   /dev/shm, and
//             /sys and the driver's part of /proc are read
// What was opened before (standard input and output) stays.

#include <memory>
#include <string>

#include "base/files/confinement.h"
#include "base/files/kernel_confinement.h"
#include "lua/assets.h"

namespace moonring::lua {

// The list above. `script`: the path of the script that will run, "" where it is no file.
base::OpenableFiles OpenableUnder(const base::Confinement& confinement, const Assets& assets,
                                  const std::string& script);

// To be called before any thread that works for scripts starts. Where the kernel has no Landlock,
// or MOONRING_LANDLOCK is "off", one line on stderr says that paths are checked before they are
// opened and no more (`speaks`: not where another rank says it).
absl::Status GiveUpOtherFiles(const base::OpenableFiles& files, bool speaks);

// To be called as a script begins: limits malloc's heap to what it has, what the confinement
// allows, a quarter of that and 64 MiB, so that one call into C++ cannot take more, either. Memory
// that runs out where no caller can report it ends the process with one line and exit code 1.
// Without TCMalloc there is no such limit.
void LimitProcess(const base::Confinement& confinement);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_CONFINED_PROCESS_H_
