#ifndef MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_

// PlannedMixing (planned_mixing.h) for decoding several sequences together on one rank. It stores
// the states of layers that are not softmax attention, as a key-value cache stores keys and values
// of attention layers. The rules for each sequence are those of mixing_cache.h.
//
// Each forward has some new rows of each of several sequences; Begin must be called before every
// forward to describe them. A new sequence may start from a copy of another sequence's state (for
// example an answer, from the state at its prompt's end).
//
// Stored per sequence and layer: the last W - 1 input rows of the convolution, with zeros before
// the first token, and the state of the delta rule; together (W - 1) C + H d_v d_k numbers (W taps,
// C channels, H value heads with a state of d_v x d_k each). A closed sequence's slot, its row in
// these tensors, is reused. Sequences with one new row are computed together by one step of the
// recurrence (delta_recurrence.h), the others together in chunks (delta_rule.h). No autograd graph
// is recorded.
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
  // Opens a sequence without tokens. Returns its id, the index of its slot.
  int64_t Open();
  // Opens a sequence that continues from the state of `sequence`.
  int64_t Fork(int64_t sequence);
  void Close(int64_t sequence);
  // Stores states that other code has computed for D sequences in a layer: the last input rows of
  // the convolution, and the states of the delta rule. Either may be undefined.
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
  // Enlarges `held` [N, ...] so that every sequence has a row; creates it if it is undefined.
  void Reserve(at::Tensor& held, at::IntArrayRef of_sequence, const at::TensorOptions& options);
  at::Tensor Convolved(const ConvolutionCall& call, Layer& layer);
  DeltaResult Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

  int64_t places_ = 0;
  std::vector<int64_t> free_;
  std::map<int64_t, Layer> layers_;
  // The current forward. singles_: number of sequences with one row; lengths_: rows of each other
  // sequence; rows_: all rows together.
  int64_t singles_ = 0, rows_ = 0;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> sequences_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_BATCH_MIXING_H_
