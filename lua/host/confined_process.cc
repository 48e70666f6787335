#include "lua/host/confined_process.h"

#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <vector>

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/memory/heap.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

// Files and folders of a Linux system that may be read, if they exist.
constexpr const char* kSystem[] = {
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
    // names of hosts and services
    "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf",
    "/etc/services", "/etc/protocols",
    // time, language, certificates, terminals
    "/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo", "/usr/share/locale",
    "/etc/locale.alias", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/usr/share/ca-certificates",
    "/etc/pki/tls/certs", "/etc/terminfo", "/usr/share/terminfo",
    // fonts, for pictures
    "/etc/fonts", "/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/fontconfig",
    "/var/cache/fontconfig",
    // information about the machine
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/kernel", "/proc/sys/vm",
    "/sys/devices", "/sys/bus/pci", "/sys/class/net", "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random", "/dev/zero",
    // information about this process, without its threads' folders, which contain the environment
    "/proc/self/cgroup", "/proc/self/fd", "/proc/self/maps", "/proc/self/mountinfo",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status", "/proc/self/timens_offsets"};

// Files of NVIDIA's driver, CUDA and NCCL that may be read.
constexpr const char* kOfGpus[] = {"/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/sys",
                                   "/usr/share/nvidia",   "/etc/nvidia"};

int AddLibrary(dl_phdr_info* info, size_t, void* list) {
  if (info->dlpi_name == nullptr || info->dlpi_name[0] != '/') return 0;
  auto& paths = *static_cast<std::vector<std::string>*>(list);
  const std::string real = base::WithoutLinks(info->dlpi_name);
  paths.push_back(real);
  // LibTorch's libraries are all in one folder, and some are loaded on first use; so the folder is
  // added.
  if (absl::StrContains(real, "/libtorch")) paths.push_back(fs::path(real).parent_path().string());
  return 0;
}

// Adds Arrow's library and its dependencies, which are loaded on first use. They are next to the
// program, in its runfiles, or in a folder named by the script that started the program
// (lua/dist/moonring.sh).
void AddOwnLibraries(const Assets& assets, std::vector<std::string>& paths) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  paths.push_back(program.string());
  std::vector<fs::path> folders = {program.parent_path() / "lib",
                                   fs::path(assets.root()) / "data/files"};
  for (const auto& folder : fs::directory_iterator(fs::path(assets.root()) / "_solib_k8", ignored))
    folders.push_back(folder.path());
  const char* const searched = std::getenv("LD_LIBRARY_PATH");
  for (const absl::string_view folder :
       absl::StrSplit(searched == nullptr ? "" : searched, ':', absl::SkipEmpty()))
    folders.emplace_back(std::string(folder));
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (absl::StrContains(entry.path().filename().string(), ".so"))
        paths.push_back(entry.path().string());
    }
  }
}

void AddGpus(base::OpenableFiles& files) {
  files.readable.insert(files.readable.end(), std::begin(kOfGpus), std::end(kOfGpus));
  files.devices.push_back("/dev/shm");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    if (absl::StartsWith(entry.path().filename().string(), "nvidia"))
      files.devices.push_back(entry.path().string());
  }
}

// A terminate handler: if memory ran out in a destructor, or in a thread that catches nothing, the
// process ends with a message. For any other exception it ends as usual.
[[noreturn]] void EndForMemory() {
  const char* what = nullptr;
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    what = "moonring: out of memory, as --sandbox-memory allows no more\n";
  } catch (const c10::OutOfMemoryError&) {
    what = "moonring: out of memory for a tensor, as --sandbox-memory allows no more\n";
  } catch (...) {
  }
  if (what == nullptr) std::abort();
  (void)!write(STDERR_FILENO, what, std::strlen(what));
  std::_Exit(1);
}

}  // namespace

base::OpenableFiles OpenableUnder(const base::Confinement& confinement, const Assets& assets,
                                  const std::string& script) {
  base::OpenableFiles files{.folders = confinement.roots(),
                            .readable = confinement.readable(),
                            .devices = {"/dev/null", "/dev/tty"}};
  files.readable.insert(files.readable.end(), std::begin(kSystem), std::end(kSystem));
  if (!script.empty()) files.readable.push_back(script);
  // Ranks that are restarted identify their launcher by its start time, which is in this file.
  files.readable.push_back(absl::StrCat("/proc/", getppid(), "/stat"));
  dl_iterate_phdr(&AddLibrary, &files.readable);
  AddOwnLibraries(assets, files.readable);
  if (at::hasCUDA()) AddGpus(files);
  return files;
}

absl::Status GiveUpOtherFiles(const base::OpenableFiles& files, bool speaks) {
  const char* const wanted = std::getenv("MOONRING_LANDLOCK");
  if (wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, "off") != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MOONRING_LANDLOCK=", wanted, ": the only value is 'off'; unset it to use Landlock"));
  }
  absl::Status status = absl::UnimplementedError("MOONRING_LANDLOCK=off");
  if (wanted == nullptr || *wanted == '\0') status = base::GiveUpOtherFiles(files).status();
  if (!absl::IsUnimplemented(status)) return status;
  if (speaks) {
    std::fprintf(stderr,
                 "moonring: --sandbox: %s: the kernel does not enforce the roots; each path is "
                 "checked before it is opened, and links must not change meanwhile\n",
                 std::string(status.message()).c_str());
  }
  return absl::OkStatus();
}

void LimitProcess(const base::Confinement& confinement) {
  constexpr int64_t kRoom = 64 << 20;
  if (confinement.memory() == 0) return;
  std::set_terminate(&EndForMemory);
  base::LimitHeap(confinement.memory() + confinement.memory() / 4 + kRoom);
}

}  // namespace moonring::lua
