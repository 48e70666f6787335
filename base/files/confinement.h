#ifndef MOONRING_BASE_FILES_CONFINEMENT_H_
#define MOONRING_BASE_FILES_CONFINEMENT_H_

// What a script that nobody vouches for may take of the machine: files below given roots, and a
// number of bytes.
//
// A confinement is a thread's, as MemoryScope's part is: a ConfinedScope puts one over what the
// thread does until the scope ends, and who starts a thread that opens files or makes tensors hands
// its own on. Outside of every scope all is allowed.
//
//   files    CheckReading and CheckWriting are asked wherever a core opens, lists, makes, renames
//            or removes something, with the very path that the system is handed. So it does not
//            matter where the path came from: a script, a YAML, a dataset_info.json, a model's
//            index, a link. Links are followed, dangling ones too; what counts is where the file
//            lies. (It is not asked again when it is opened: another process that changes links
//            meanwhile is not among what this guards against.)
//   memory   the bytes of tensors made under it (while base/memory/memory_account counts them), and
//            what is charged besides: a Lua heap, texts that are parsed or written
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
  std::vector<std::string> roots;  // folders; to read and to write in
  std::vector<std::string>
      readable;  // files and folders to read besides; those that are not there do not matter
  bool any_file = false;  // roots and readable are not looked at
  int64_t memory = 0;     // bytes; 0: any number
  // Bytes that malloc has given to this process and not got back; empty: the heap is not counted.
  std::function<int64_t()> heap;
};

class Confinement {
 public:
  // INVALID_ARGUMENT where a root is no folder.
  static absl::StatusOr<std::shared_ptr<Confinement>> Create(ConfinementOptions options);

  absl::Status CheckReading(const std::string& path) const;
  absl::Status CheckWriting(const std::string& path) const;

  // False where it would be more than there may be; then nothing is charged.
  bool Charge(int64_t bytes);
  void Release(int64_t bytes) { charged_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t charged() const {
    return charged_.load(std::memory_order_relaxed) + beside_.load(std::memory_order_relaxed);
  }
  int64_t memory() const { return options_.memory; }

  // Charges the heap's growth since the first call, minus what Charge has counted already. Does
  // nothing where the options have no heap. The figure is updated by this call alone, and by Charge
  // before it refuses.
  void CountHeap();

  const std::vector<std::string>& roots() const { return options_.roots; }
  const std::vector<std::string>& readable() const { return options_.readable; }

 private:
  explicit Confinement(ConfinementOptions options) : options_(std::move(options)) {}
  absl::Status Check(const std::string& path, bool writes) const;

  ConfinementOptions options_;        // its paths are without links
  std::atomic<int64_t> charged_ = 0;  // by Charge
  std::atomic<int64_t> beside_ = 0;   // the heap's growth without these
  std::once_flag heap_begins_;
  int64_t heap_at_start_ = 0;  // without what Charge had counted then
};

// This thread's; null where there is none.
const std::shared_ptr<Confinement>& CurrentConfinement();

// Bytes that are about to be taken from malloc, charged to this thread's confinement until the end
// of its life.
class ChargedBytes {
 public:
  ChargedBytes() : confinement_(CurrentConfinement()) {}
  ~ChargedBytes();
  ChargedBytes(const ChargedBytes&) = delete;
  ChargedBytes& operator=(const ChargedBytes&) = delete;

  // RESOURCE_EXHAUSTED where it would be more than there may be, with `what` they are for.
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

// Check against this thread's confinement; OK where there is none. A path with a NUL is always
// INVALID_ARGUMENT: the system would open the part before the NUL.
absl::Status CheckReading(const std::string& path);
absl::Status CheckWriting(const std::string& path);

// Links in a row that are followed, as by the kernel: a chain that is longer goes in a circle.
inline constexpr int kMostLinks = 40;

// The absolute path of what `path` stands for once every link is followed, whether or not it is
// there; "" where links go round in a circle.
std::string WithoutLinks(const std::string& path);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_CONFINEMENT_H_
