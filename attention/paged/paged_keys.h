#ifndef MOONRING_ATTENTION_PAGED_PAGED_KEYS_H_
#define MOONRING_ATTENTION_PAGED_PAGED_KEYS_H_

// The key-value cache of one layer in blocks of kKeyBlock tokens, for decoding sequences that grow
// (Kwon et al. 2023, "PagedAttention", arXiv:2309.06180). A sequence is a list of block indices in
// any order. So no block is moved when the sequence grows, and sequences with a common beginning
// can share blocks. The caller decides which sequence has which blocks.
//
//   keys    [N, Hk, D, B]    a block's keys are stored transposed, so that the scores of a query
//                            against all of them are one pass over contiguous numbers, without sums
//                            across a SIMD vector
//   values  [N, Hk, B, Dv]
//
// N blocks, Hk kv heads, head dims D of keys and Dv of values. Both are in the dtype of k and v; B
// = kKeyBlock. Memory: N B Hk (D + Dv) numbers, and twice that while this layer's cache is being
// enlarged. Rows of a block that were never written are undefined and must not be attended to.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"

namespace moonring::attention {

inline constexpr int64_t kKeyBlock = 64;

// Tokens [first, first + tokens) of a sequence, in the first rows of a block.
struct KeyBlock {
  int64_t block = 0;
  int64_t first = 0;
  int64_t tokens = 0;
  int64_t end() const { return first + tokens; }
  friend bool operator==(const KeyBlock&, const KeyBlock&) = default;
};

// The block and row that a token is written to.
struct KeyPlace {
  int64_t block = 0;
  int64_t row = 0;
};

class PagedKeys {
 public:
  // Sets the numbers of heads, head dims, dtype and device to those of these rows. Throws where
  // they differ from those of an earlier call.
  void Fit(const at::Tensor& k_TKD, const at::Tensor& v_TKD);

  // Enlarges the cache to at least `blocks` blocks. Call Fit before.
  void Reserve(int64_t blocks);

  // Writes row t of k and v to the block and row places[t].
  void Write(absl::Span<const KeyPlace> places, const at::Tensor& k_TKD, const at::Tensor& v_TKD);

  // Copies all rows of block `from` to block `to`. Write must have been called before.
  void Copy(int64_t from, int64_t to);

  const at::Tensor& keys_NKDB() const { return keys_NKDB_; }
  const at::Tensor& values_NKBD() const { return values_NKBD_; }
  int64_t blocks() const { return keys_NKDB_.defined() ? keys_NKDB_.size(0) : 0; }
  int64_t bytes() const;

 private:
  at::Tensor keys_NKDB_, values_NKBD_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_KEYS_H_
