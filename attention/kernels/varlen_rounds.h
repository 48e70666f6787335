#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_

// Turns a plan's tiles into ragged calls: which rows each call reads, and where its results go.
//
//   full     the full tiles of one query range become one tile of a call: its keys are gathered
//            from all their ranges, in any order
//   again    query ranges that overlap without being equal (keys in pieces cause this at a window's
//            edge) go to further calls: no query row occurs twice in one call, so that its results
//            are merged at once
//   waves    keys may occur in several tiles of a call. Their gradients are added in waves without
//            a repeated row, in a fixed order, so that no nondeterminism is added to that of the
//            kernels
//
// Made once for a plan and a device and stored with the plan (PlanNotes). Host: O(rows) for the
// indices of rows that are not contiguous; device: 8 bytes for each of these.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/tile.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// A selection of rows of a buffer, range after range.
class Rows {
 public:
  Rows(const std::vector<RowRange>& ranges, const at::Device& device);

  // A view where the rows are contiguous, else a copy.
  at::Tensor Of(const at::Tensor& buffer) const;
  bool is_run() const { return !index_.defined(); }
  const at::Tensor& index() const { return index_; }  // int64; undefined if is_run()
  bool AreAllOf(int64_t rows) const { return is_run() && run_.begin == 0 && run_.end == rows; }

  // No row may occur twice: with duplicates the result would depend on the GPU's order of writes.
  void Put(const at::Tensor& values, const at::Tensor& buffer) const;
  // Adds values of any dtype to the rows.
  void Add(const at::Tensor& values, const at::Tensor& buffer) const;

 private:
  RowRange run_;
  at::Tensor index_;
};

// Adds the gradients of a round's keys: rows `from` of the round to rows `to` of the buffer.
struct KeyWave {
  Rows from, to;
};

// One kernel call for each run of heads.
struct Round {
  Rows queries, keys;
  std::vector<KeyWave> waves;
  VarlenTiles tiles;  // without tensors and score
};

// The rounds of a plan on a device, in the order in which they are merged.
const std::vector<Round>& RoundsOf(const TilePlan& plan, const at::Device& device);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_
