#ifndef MOONRING_ATTENTION_KERNEL_CHOICE_H_
#define MOONRING_ATTENTION_KERNEL_CHOICE_H_

// Which fused kernel of a GPU takes a document: flash attention takes many in a ragged call,
// cuDNN's one a call, which pays where it is long.
//
//   flash                 all by flash
//   cudnn                 all that cuDNN takes (cudnn_attention.h)
//   flash<8192<=cudnn     from 8,192 tokens on by cuDNN, where it takes them
//   flash<8192<=cudnn, cudnn=4096    and documents of 4,096 tokens
//   flash, cudnn=4096     those alone
//
// cuDNN builds a plan for each length that it meets first, forward and backward: 0.1 s on an H100's
// host (docs/gpu.md). So a length must be worth that by itself, except the one that comes again and
// again, cutoff_len.
//
// Measured at a run's start for its heads (kernel_timing.h), or written in its configuration. From
// numbers to a choice there is no device here.

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

// As above; each is the other's inverse. INVALID_ARGUMENT says what may be written.
std::string ToString(const KernelChoice& choice);
absl::StatusOr<KernelChoice> ParseKernelChoice(absl::string_view text);

// Seconds of forward and backward of one causal document of that length.
struct KernelTiming {
  int64_t length = 0;
  double flash_seconds = 0;
  std::optional<double> cudnn_seconds;  // nothing: it refused, or its numbers were not flash's
  double build_seconds = 0;             // what cuDNN's first call at a length takes beyond that
};

struct KernelUse {
  int64_t layers = 1;  // that share a plan
  int64_t often = 0;   // the length that many documents have; 0: none
};

// cuDNN from the least length on from which, at this and all greater ones, it saves in the layers
// of one forward and backward what its plans take; and for documents of use.often tokens where it
// is faster at all, by a fiftieth: less is noise. Lengths in any order.
KernelChoice ChooseKernels(absl::Span<const KernelTiming> timings, const KernelUse& use);

// Rank 0's, on every rank: kernels differ in their last bits. Collective.
absl::Status TakeFirstRanks(comm::Communicator& group, KernelChoice& choice);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNEL_CHOICE_H_
