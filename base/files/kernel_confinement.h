#ifndef MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_
#define MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_

// Files that a thread may open, held by the kernel (Linux's Landlock,
// https://docs.kernel.org/userspace-api/landlock.html). Confinement (confinement.h) looks at a path
// before it is opened; another process may put a link in its place between the two. The kernel
// decides by the file that is opened, so nothing comes between.
//
// It holds for the thread that asks and for all threads and processes that it starts from then on,
// for ever; a thread that runs already is left as it is. Files that are open stay usable. What is
// not held: whether a path is there (stat, readlink), sockets, and what a file's owner may change
// of it (its mode, its times).

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::base {

// Missing paths are skipped; links are followed.
struct OpenableFiles {
  std::vector<std::string> folders;   // all below them: to read, write, make, rename and remove
  std::vector<std::string> readable;  // files; folders with all below them: to read and to list
  std::vector<std::string> devices;   // files and folders: to read, write and control (ioctl)
};

// Denies this thread all other files, and the execution of programs. Before Linux 5.19 the kernel
// also refuses to rename or link a file from one folder to another (EXDEV). Returns the version of
// Landlock's interface (from 1, Linux 5.13). Fails with UNIMPLEMENTED where the kernel has no
// Landlock or has it switched off (nothing was given up then), with another code where it refuses.
absl::StatusOr<int> GiveUpOtherFiles(const OpenableFiles& files);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_
