#ifndef MOONRING_BASE_FILES_CONFINEMENT_H_
#define MOONRING_BASE_FILES_CONFINEMENT_H_

// Confines an untrusted script: which files it may access (those below given roots), and how many
// bytes of memory it may use.
//
// A confinement applies to one thread: a ConfinedScope applies it to the thread that creates the
// scope, until the scope ends. Code that starts a thread that opens files or creates tensors must
// pass the confinement on. Without a scope everything is allowed.
//
//   files    CheckReading and CheckWriting are called wherever C++ code opens, lists, creates,
//            renames or removes a file, with the same path that is passed to the system. So the
//            origin of the path does not matter: a script, a YAML, a dataset_info.json, a model's
//            index, a link. Links are followed, even dangling ones; what counts is the file's real
//            location. (There is no second check at the time of opening: another process that
//            changes links meanwhile is not guarded against.)
//   memory   counts the bytes of tensors created while the confinement applies (if
//            base/memory/memory_account counts them), and other bytes that are charged: a Lua
//            heap, texts that are parsed or written
//
// Fails with PERMISSION_DENIED: "--sandbox: /etc/passwd is outside of the roots (/data)".

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::base {

struct ConfinementOptions {
  std::vector<std::string> roots;  // folders for reading and writing
  std::vector<std::string>
      readable;           // more files and folders, for reading only; missing ones are ignored
  bool any_file = false;  // allows all files; roots and readable are ignored
  int64_t memory = 0;     // bytes; 0: unlimited
  // Bytes that the process has allocated by malloc and not freed; empty: the heap is not counted.
  std::function<int64_t()> heap;
};

class Confinement {
 public:
  // INVALID_ARGUMENT if a root is not a folder.
  static absl::StatusOr<std::shared_ptr<Confinement>> Create(ConfinementOptions options);

  absl::Status CheckReading(const std::string& path) const;
  absl::Status CheckWriting(const std::string& path) const;

  // Returns false, and charges nothing, if the limit would be exceeded.
  bool Charge(int64_t bytes);
  void Release(int64_t bytes) { charged_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t charged() const {
    return charged_.load(std::memory_order_relaxed) + beside_.load(std::memory_order_relaxed);
  }
  int64_t memory() const { return options_.memory; }

  // Charges the heap's growth since the first call of this function, except the bytes that Charge
  // has counted already. Does nothing if the options have no `heap`. The heap's growth is measured
  // only here; Charge calls this function before it refuses.
  void CountHeap();

  const std::vector<std::string>& roots() const { return options_.roots; }
  const std::vector<std::string>& readable() const { return options_.readable; }

 private:
  explicit Confinement(ConfinementOptions options) : options_(std::move(options)) {}
  absl::Status Check(const std::string& path, bool writes) const;

  ConfinementOptions options_;        // paths with links resolved
  std::atomic<int64_t> charged_ = 0;  // by Charge
  std::atomic<int64_t> beside_ = 0;   // the heap's growth, without the bytes in charged_
  std::once_flag heap_begins_;
  int64_t heap_at_start_ = 0;  // without the bytes that Charge had counted by then
};

// The calling thread's confinement; null if there is none.
const std::shared_ptr<Confinement>& CurrentConfinement();

// Bytes that are about to be allocated by malloc. They are charged to this thread's confinement
// until the object is destroyed.
class ChargedBytes {
 public:
  ChargedBytes() : confinement_(CurrentConfinement()) {}
  ~ChargedBytes();
  ChargedBytes(const ChargedBytes&) = delete;
  ChargedBytes& operator=(const ChargedBytes&) = delete;

  // RESOURCE_EXHAUSTED if the limit would be exceeded; the message names `what` the bytes are for.
  absl::Status Add(int64_t bytes, const char* what);

 private:
  const std::shared_ptr<Confinement> confinement_;
  int64_t bytes_ = 0;
};

class ConfinedScope {
 public:
  explicit ConfinedScope(std::shared_ptr<Confinement> confinement);
  ~ConfinedScope();
  ConfinedScope(const ConfinedScope&) = delete;
  ConfinedScope& operator=(const ConfinedScope&) = delete;

 private:
  std::shared_ptr<Confinement> before_;
};

// Check against this thread's confinement; OK if there is none. A path with a NUL is always
// INVALID_ARGUMENT: the system would open the path before the NUL.
absl::Status CheckReading(const std::string& path);
absl::Status CheckWriting(const std::string& path);

// The maximum number of symbolic links that are followed one after another, as in Linux; a longer
// chain counts as a cycle.
inline constexpr int kMostLinks = 40;

// The absolute path with every link resolved, whether or not the file exists; "" if the links form
// a cycle.
std::string WithoutLinks(const std::string& path);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_CONFINEMENT_H_
