#ifndef MOONRING_ATTENTION_VARLEN_ROUNDS_H_
#define MOONRING_ATTENTION_VARLEN_ROUNDS_H_

// A plan's tiles as ragged calls: which rows each takes, and where its results go.
//
//   full     the full tiles of one query range are one tile of a call: its keys are gathered from
//            all their ranges, in any order
//   again    query ranges that overlap without being equal, as keys in pieces make them at a
//            window's edge, go to further calls: in one call no query row occurs twice, so its
//            results are merged at once
//   waves    keys do occur in several tiles of a call. Their gradients are added in waves without a
//            repeated row, in a fixed order: nothing nondeterministic is added to the kernels
//
// Made once for a plan and a device and kept with the plan (PlanNotes). Host: O(rows) for the
// indices of rows that are no run; device: 8 bytes for each of these.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/tile.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

// Some rows of a buffer, range after range.
class Rows {
 public:
  Rows(const std::vector<RowRange>& ranges, const at::Device& device);

  // A view where they are one run, else a copy.
  at::Tensor Of(const at::Tensor& buffer) const;
  bool is_run() const { return !index_.defined(); }
  const at::Tensor& index() const { return index_; }  // int64; undefined for a run
  bool AreAllOf(int64_t rows) const { return is_run() && run_.begin == 0 && run_.end == rows; }

  // No row may occur twice: what such rows get would depend on the order in which a GPU comes to
  // them.
  void Put(const at::Tensor& values, const at::Tensor& buffer) const;
  // Values of any dtype.
  void Add(const at::Tensor& values, const at::Tensor& buffer) const;

 private:
  RowRange run_;
  at::Tensor index_;
};

// Where the gradients of a round's keys go.
struct KeyWave {
  Rows from, to;
};

// One call for each run of heads.
struct Round {
  Rows queries, keys;
  std::vector<KeyWave> waves;
  VarlenTiles tiles;  // without tensors and score
};

// Those of a plan on a device, in the order in which they are merged.
const std::vector<Round>& RoundsOf(const TilePlan& plan, const at::Device& device);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_VARLEN_ROUNDS_H_
