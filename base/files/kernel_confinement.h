#ifndef MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_
#define MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_

// Restricts the files that a thread may open, enforced by the kernel (Linux's Landlock,
// https://docs.kernel.org/userspace-api/landlock.html). Confinement (confinement.h) checks a path
// before it is opened; another process may replace it by a link in between. The kernel checks the
// file that is actually opened, so this race does not exist.
//
// The restriction is permanent. It applies to the calling thread and to all threads and processes
// that it starts later, but not to threads that already run. Files that are already open stay
// usable. Not restricted: whether a path exists (stat, readlink), sockets, and what a file's owner
// may change (its mode and times).

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::base {

// Missing paths are skipped; links are followed.
struct OpenableFiles {
  std::vector<std::string> folders;   // and all below: read, write, create, rename, remove
  std::vector<std::string> readable;  // files, or folders and all below: read and list
  std::vector<std::string> devices;   // files and folders: read, write and control (ioctl)
};

// Denies this thread access to all other files, and the execution of programs. Before Linux 5.19
// the kernel also refuses to rename or link a file from one folder to another (EXDEV). Returns the
// version of Landlock's interface (from 1, Linux 5.13). Fails with UNIMPLEMENTED if the kernel has
// no Landlock or has it disabled (nothing is restricted then), and with another code if the kernel
// refuses.
absl::StatusOr<int> GiveUpOtherFiles(const OpenableFiles& files);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_KERNEL_CONFINEMENT_H_
