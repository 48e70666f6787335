#ifndef MOONRING_ATTENTION_KERNEL_CHOICE_H_
#define MOONRING_ATTENTION_KERNEL_CHOICE_H_

// Which fused GPU kernel computes a document's attention: flash attention takes many documents in
// one ragged (varlen) call, cuDNN one document a call, which is faster for long ones.
//
//   flash                 all by flash
//   cudnn                 all that cuDNN takes (cudnn_attention.h)
//   flash<8192<=cudnn     from 8,192 tokens on by cuDNN, where it takes them
//   flash<8192<=cudnn, cudnn=4096    and documents of 4,096 tokens
//   flash, cudnn=4096     those alone
//
// cuDNN builds a plan for each new length, forward and backward: 0.1 to 0.2 s on an H100's host
// (docs/gpu.md). So one use of a length must save that much, except for the length that many
// documents have since they are cut there (cutoff_len).
//
// The choice is measured at a run's start (kernel_timing.h) or set by attention_kernels. This file
// needs no device.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "comm/communicator.h"

namespace moonring::attention {

struct KernelChoice {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t cudnn_from = kNever;  // tokens; 0: always
  int64_t cudnn_at = 0;         // tokens of documents that go to cuDNN too; 0: none

  bool IsCudnns(int64_t queries, int64_t keys) const {
    return std::min(queries, keys) >= cudnn_from || (queries == keys && queries == cudnn_at);
  }
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

// The form above; the two are inverses. INVALID_ARGUMENT: a text of another form.
std::string ToString(const KernelChoice& choice);
absl::StatusOr<KernelChoice> ParseKernelChoice(absl::string_view text);

// Seconds of forward and backward of one causal document of that length.
struct KernelTiming {
  int64_t length = 0;
  double flash_seconds = 0;
  std::optional<double> cudnn_seconds;  // nothing: it refused, or its numbers were not flash's
  double build_seconds = 0;             // how much longer cuDNN's first call is
};

struct KernelUse {
  int64_t layers = 1;  // that share a plan
  int64_t often = 0;   // the length that many documents have; 0: none
};

// cuDNN for all lengths from the shortest on at which, and at all longer ones, one forward and
// backward through `layers` saves more than its plans cost; and for documents of use.often tokens
// where it is at least 2 % faster (less is noise). Timings in any order.
KernelChoice ChooseKernels(absl::Span<const KernelTiming> timings, const KernelUse& use);

// Broadcasts rank 0's choice: kernels differ in their last bits. Collective.
absl::Status TakeFirstRanks(comm::Communicator& group, KernelChoice& choice);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNEL_CHOICE_H_
