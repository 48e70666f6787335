#ifndef MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_

// PlannedMixing for decoding several sequences together on one rank: the states of layers that are
// not softmax attention, as the key-value cache is for attention layers. For each sequence it
// follows the rules of mixing_cache.h.
//
// Each forward has some new rows of each of several sequences; Begin must be called before every
// forward to describe them. A sequence may start from another one's state, which is copied (an
// answer starts from its prompt's end).
//
// Stored per sequence and layer: the last W - 1 rows before the convolution, zeros where there were
// none, and the rule's state, that is (W - 1) C + H d_v d_k numbers. Slots of closed sequences are
// reused. Sequences with one row in a forward go through the recurrence's step together, the others
// through the chunked rule together. Records no autograd graph.
//
// Throws (TORCH_CHECK) where calls are inconsistent with earlier ones.

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

class BatchMixing : public PlannedMixing {
 public:
  // Opens a sequence without tokens. Returns its id, an index among all slots.
  int64_t Open();
  // Opens a sequence that continues from the state of `sequence`.
  int64_t Fork(int64_t sequence);
  void Close(int64_t sequence);
  // Sets the states of sequences in a layer, as other code has computed them: [D, ...] each; either
  // may be undefined.
  void Put(int64_t layer, const std::vector<int64_t>& sequences, const at::Tensor& last_DRC,
           const at::Tensor& state_DHVK);

  struct Rows {
    int64_t sequence = 0, rows = 0;
  };
  // Describes the next forward. Each sequence occurs at most once and has at least one row; those
  // with one row come first.
  void Begin(std::vector<Rows> rows);

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;

  int64_t bytes() const;

 private:
  struct Layer {
    at::Tensor last_NRC;    // undefined: no convolution
    at::Tensor state_NHVK;  // undefined: no delta rule
  };

  int64_t Take();
  // Allocates room for every sequence in a tensor [N, ...], which is created where it is undefined.
  void Reserve(at::Tensor& held, at::IntArrayRef of_sequence, const at::TensorOptions& options);
  at::Tensor Convolved(const ConvolutionCall& call, Layer& layer);
  DeltaResult Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

  int64_t places_ = 0;
  std::vector<int64_t> free_;
  std::map<int64_t, Layer> layers_;
  // The current forward: the number of sequences with one row, the lengths of the others, all
  // rows.
  int64_t singles_ = 0, rows_ = 0;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> sequences_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_
