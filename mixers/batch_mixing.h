#ifndef MOONRING_MIXERS_BATCH_MIXING_H_
#define MOONRING_MIXERS_BATCH_MIXING_H_

// PlannedMixing of many sequences that grow, on one rank: what decoding them together keeps beside
// the keys and values of attention layers. mixing_cache.h's rule and numbers for each of them.
//
// A forward's rows are some rows of each of several sequences, which come after those that these
// have had. Begin tells which before every forward. A sequence may begin where another one is: its
// state is copied (an answer starts from its prompt's end).
//
// Kept for a sequence and a layer: the last W - 1 rows before the convolution, zeros where there
// were none, and the rule's state, (W - 1) C + H d_v d_k numbers; places of closed sequences are
// used again. Rows of sequences that have one in a forward go through the recurrence's step
// together, the others through the chunked rule together. Records no graph.
//
// Throws (TORCH_CHECK) where calls do not fit those before.

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/planned_mixing.h"

namespace moonring::mixers {

class BatchMixing : public PlannedMixing {
 public:
  // A sequence without tokens; its number, a place among all.
  int64_t Open();
  // One that goes on where `sequence` is.
  int64_t Fork(int64_t sequence);
  void Close(int64_t sequence);
  // Puts sequences where others have brought them: [D, ...] each, of a layer; either may be
  // undefined.
  void Put(int64_t layer, const std::vector<int64_t>& sequences, const at::Tensor& last_DRC,
           const at::Tensor& state_DHVK);

  struct Rows {
    int64_t sequence = 0, rows = 0;
  };
  // What the next forward is of: no sequence twice, those of one row first, none of no rows.
  void Begin(std::vector<Rows> rows);

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;

  int64_t bytes() const;

 private:
  struct Layer {
    at::Tensor last_NRC;    // undefined: there is no convolution
    at::Tensor state_NHVK;  // undefined: there is no rule
  };

  int64_t Take();
  // Room for every sequence in a tensor [N, ...]; made where it is undefined.
  void Reserve(at::Tensor& held, at::IntArrayRef of_sequence, const at::TensorOptions& options);
  at::Tensor Convolved(const ConvolutionCall& call, Layer& layer);
  DeltaResult Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

  int64_t places_ = 0;
  std::vector<int64_t> free_;
  std::map<int64_t, Layer> layers_;
  // Of the forward: how many sequences have one row, the rows of the others, all rows.
  int64_t singles_ = 0, rows_ = 0;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> sequences_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_BATCH_MIXING_H_
