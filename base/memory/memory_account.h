#ifndef MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_
#define MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_

// What each live byte of the host's tensors is for.
//
// Every storage that LibTorch allocates on the CPU carries the part that it was made for: the
// innermost MemoryScope of the thread that made it, "other" outside any. A storage that changes its
// use changes its part (CountAs). So at any time
//
//   total = sum over parts of live(part),  live(part) = bytes of the storages of that part that are
//       not freed yet
//
//   weights             Parameters' weights, and copies of them in another dtype while a block has
//                       them on lease; those that are a file's pages from when they are written
//   gradients           what Parameters' sinks hold
//   optimizer           its states, and what a step of it works with
//   checkpoint inputs   what blocks keep from forward to backward: their inputs
//   activations         what blocks, embedding and norms make while they run; where nothing is
//                       recomputed, all that they keep
//   attention           what attention makes: outputs, log-sum-exps, gradients of q, k and v, tiles
//   logits              scores over the vocabulary, and what the loss makes of them
//   communication       what is sent and received
//   other               the rest: ids, labels, a script's own tensors
//
// A scope belongs to its thread. base::RunParallelTasks gives its tasks the caller's; another
// at::parallel_for whose body allocates opens it itself. A backward on the CPU runs on the thread
// that called it.
//
// It is the process's own: LibTorch has one CPU allocator a process. Cost: 64 bytes and three
// atomic additions a storage, a copy of nine numbers where the total is greater than ever before.
// Memory of a GPU is not seen: that is device_account.h's.
//
// An allocation that fails throws c10::OutOfMemoryError: "out of memory: 1.2 GiB for attention
// (weights 0.5 GiB, gradients 0.5 GiB live)".

#include <array>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::base {

enum class MemoryPart : uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kCheckpointInputs,
  kActivations,
  kAttention,
  kLogits,
  kCommunication,
  kOther
};
inline constexpr int kMemoryParts = 9;

absl::string_view MemoryPartName(MemoryPart part);  // as above

struct MemoryByPart {
  std::array<int64_t, kMemoryParts> bytes{};
  int64_t mapped = 0;  // of these, in pages of a file that were written, hence not from malloc

  int64_t operator[](MemoryPart part) const { return bytes[static_cast<int>(part)]; }
  int64_t total() const;
};

// Takes the place of LibTorch's CPU allocator, for ever. A second call does nothing. What was
// allocated before is not counted. Without it everything here is allowed and counts nothing. Call
// it while no other thread makes tensors.
void InstallMemoryAccount();

MemoryByPart LiveMemory();
// Of the moment when the total was greatest; exact but for what other threads allocated at that
// very moment.
MemoryByPart PeakMemory();

MemoryPart CurrentMemoryPart();

class MemoryScope {
 public:
  explicit MemoryScope(MemoryPart part);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  const MemoryPart before_;
};

// From now on the whole storage of `tensor` is of this part. Undefined tensors and storages that
// the account did not make (mapped files, memory from before) are left alone, and those on a device
// but for whom TellOfDevices named.
void CountAs(MemoryPart part, const at::Tensor& tensor);

// Who is told of a CountAs of what lies on a device (device_account.h).
using DeviceCount = void (*)(MemoryPart part, const at::Tensor& tensor);
void TellOfDevices(DeviceCount count);

// The same for a tensor that is about to be written in place: one whose storage is a private
// mapping of a file gets pages of its own from the kernel, so it is counted too, until it is freed.
void CountWritten(MemoryPart part, const at::Tensor& tensor);

// The words for an allocation that failed: "out of memory: 1.2 GiB for attention (...)"; 0 bytes:
// an unknown number.
std::string OutOfMemory(absl::string_view what, int64_t bytes);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_
