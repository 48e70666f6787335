#ifndef MOONRING_ATTENTION_KERNELS_KERNEL_CHOICE_H_
#define MOONRING_ATTENTION_KERNELS_KERNEL_CHOICE_H_

// Which fused GPU kernel computes a document's attention. Flash attention computes many documents
// in one ragged (varlen) call. cuDNN computes one document per call, which is faster for long ones.
//
//   flash                 flash attention for all
//   cudnn                 cuDNN for all tiles that it supports (cudnn_attention.h)
//   flash<8192<=cudnn     cuDNN from 8,192 tokens on, where it supports the tile
//   flash<8192<=cudnn, cudnn=4096    cuDNN from 8,192 tokens on, and for exactly 4,096
//   flash, cudnn=4096     cuDNN for documents of exactly 4,096 tokens only
//
// For each new length cuDNN builds an execution plan for the forward and one for the backward,
// which takes 0.1 to 0.2 s on an H100 host (docs/gpu.md). Most lengths occur once, so cuDNN is
// chosen only where a single use saves that much time. The exception is the length to which many
// documents are truncated (cutoff_len), since this length occurs often.
//
// The choice is made from timings at a run's start (kernel_timing.h) or set by the configuration
// key attention_kernels. This file does not use a device.

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
  int64_t cudnn_from = kNever;  // cuDNN for at least this many tokens; 0: always
  int64_t cudnn_at = 0;         // documents of exactly this many tokens also use cuDNN; 0: none

  bool IsCudnns(int64_t queries, int64_t keys) const {
    return std::min(queries, keys) >= cudnn_from || (queries == keys && queries == cudnn_at);
  }
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

// Convert a choice to and from a text such as "flash<8192<=cudnn, cudnn=4096" (all forms: above).
// INVALID_ARGUMENT for any other text.
std::string ToString(const KernelChoice& choice);
absl::StatusOr<KernelChoice> ParseKernelChoice(absl::string_view text);

// Measured times of the forward and backward of one causal document of this length.
struct KernelTiming {
  int64_t length = 0;
  double flash_seconds = 0;
  std::optional<double> cudnn_seconds;  // nullopt: cuDNN refused, or its results differed from
                                        // flash attention's
  double build_seconds = 0;             // how much longer cuDNN's first call takes
};

struct KernelUse {
  int64_t layers = 1;  // number of layers that use the same execution plan
  int64_t often = 0;   // the length that many documents have; 0: none
};

// Chooses cuDNN from a length L on: the shortest timed length such that, at L and at every longer
// timed length, one forward and backward through use.layers layers saves more time than building
// the plans costs. Also chooses cuDNN for documents of use.often tokens where it is at least 2%
// faster (less is noise). Timings may be in any order.
KernelChoice ChooseKernels(absl::Span<const KernelTiming> timings, const KernelUse& use);

// Broadcasts rank 0's choice, since kernels differ in the last bits of their results. Collective.
absl::Status TakeFirstRanks(comm::Communicator& group, KernelChoice& choice);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_KERNEL_CHOICE_H_
