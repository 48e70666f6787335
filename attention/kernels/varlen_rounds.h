#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_

// Converts a plan's tiles (tile.h) into ragged (varlen) kernel calls, called rounds: which rows
// each call reads, and where its results are stored. Rules:
//
//   full     all full tiles of one query range become one tile of a call, whose keys are gathered
//            from all key ranges, in any order
//   again    no query row occurs twice in one call, so that all results of a call are merged at
//            once. Query ranges that overlap without being equal are computed in further calls
//            (they occur at a window's edge where keys arrive in pieces)
//   waves    a key may occur in several tiles of a call. The gradients of keys are added in waves,
//            in a fixed order. In a wave each row occurs once, so the additions are deterministic
//
// Rounds are made once for a plan and a device, and stored in the plan (PlanNotes). Host: O(rows)
// for the indices of rows that are not contiguous; device: 8 bytes for each of these.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/tile.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// A selection of rows of a buffer: the rows of several ranges, one range after another.
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

// One wave: the gradients of the round's key rows `from` are added to the rows `to` of the gradient
// buffer.
struct KeyWave {
  Rows from, to;
};

// One kernel call (or one for each run of heads, varlen_tile_runner.h).
struct Round {
  Rows queries, keys;
  std::vector<KeyWave> waves;
  VarlenTiles tiles;  // without tensors and score
};

// The rounds of a plan on a device, in the order in which their results are merged.
const std::vector<Round>& RoundsOf(const TilePlan& plan, const at::Device& device);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_ROUNDS_H_
