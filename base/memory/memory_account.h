#ifndef MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_
#define MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_

// Accounts for the live bytes of the host's tensors by category ("part").
//
// Every storage that LibTorch allocates on the CPU has a category: that of the innermost
// MemoryScope on the allocating thread, or "other" outside any scope. A storage that changes its
// use changes its category (CountAs). So at any time
//
//   total = sum over parts of live(part),  live(part) = bytes of the storages of that part that are
//       not freed yet
//
//   weights             Parameters' weights, and copies of them in another dtype while a block of
//                       the model uses the copies; mapped file pages count once they are written
//   gradients           contents of Parameters' gradients
//   optimizer           the optimizer's states, and the temporaries of an optimizer step
//   checkpoint inputs   the blocks' inputs, kept from forward to backward for recomputation
//   activations         temporaries of blocks, embedding and norms; without recomputation, also
//                       everything that they keep for the backward
//   attention           outputs, log-sum-exps, gradients of q, k and v, and tiles of attention
//   logits              scores over the vocabulary, and the loss's temporaries
//   communication       send and receive buffers
//   other               the rest: ids, labels, a script's own tensors
//
// A scope is thread-local. base::RunParallelTasks passes the caller's scope to its tasks; any other
// at::parallel_for whose body allocates must open a scope in the body. A backward on the CPU runs
// on the thread that called it.
//
// The account is global, because LibTorch has one CPU allocator per process. Cost: 64 bytes and
// three atomic additions per storage, and a copy of nine numbers when the total exceeds its
// previous peak. Memory of a GPU is not included: see device_account.h.
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

absl::string_view MemoryPartName(MemoryPart part);  // as in the list above

struct MemoryByPart {
  std::array<int64_t, kMemoryParts> bytes{};
  int64_t mapped = 0;  // those of `bytes` in written pages of mapped files

  int64_t operator[](MemoryPart part) const { return bytes[static_cast<int>(part)]; }
  int64_t total() const;
};

// Replaces LibTorch's CPU allocator, permanently. A second call does nothing. Memory allocated
// before this call is not counted. Without this call the other functions work but count nothing.
// During this call no other thread may create tensors.
void InstallMemoryAccount();

MemoryByPart LiveMemory();
// Memory by category at the moment when the total was largest; exact except for what other threads
// allocated at that very moment.
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

// Changes the category of the whole storage of `tensor`. Undefined tensors, and storages that the
// account did not allocate (mapped files, memory allocated before InstallMemoryAccount), are
// ignored. Storages on a device are passed to the function that TellOfDevices registered, if any.
void CountAs(MemoryPart part, const at::Tensor& tensor);

// Registers the function that CountAs calls for tensors on a device (device_account.h).
using DeviceCount = void (*)(MemoryPart part, const at::Tensor& tensor);
void TellOfDevices(DeviceCount count);

// CountAs for a tensor that is about to be written in place. If its storage is a private mapping of
// a file, the operating system allocates new pages for the written data, so the whole storage is
// counted until it is freed.
void CountWritten(MemoryPart part, const at::Tensor& tensor);

// The message for a failed allocation: "out of memory: 1.2 GiB for attention (...)". `bytes` is 0
// if the number is unknown.
std::string OutOfMemory(absl::string_view what, int64_t bytes);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_MEMORY_ACCOUNT_H_
