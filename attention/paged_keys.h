#ifndef MOONRING_ATTENTION_PAGED_KEYS_H_
#define MOONRING_ATTENTION_PAGED_KEYS_H_

// Keys and values of one layer in blocks of kKeyBlock tokens: what sequences that grow are decoded
// from (Kwon et al. 2023, "PagedAttention", arXiv:2309.06180). A sequence is a list of blocks that
// lie anywhere, so none is moved as it grows, and sequences that begin alike share blocks. Who has
// which block is the caller's business.
//
//   keys    [N, Hk, D, B]    a block's keys by column: scores of a query against all of them are
//   one
//                            pass over contiguous numbers, with no sum across a vector
//   values  [N, Hk, B, Dv]
//
// in the dtype of k and v, B = kKeyBlock. Memory: N B Hk (D + Dv) numbers; while it grows, twice
// that, of this layer alone. Rows of a block that were never written are undefined and must not be
// seen.

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

// Where a token is written.
struct KeyPlace {
  int64_t block = 0;
  int64_t row = 0;
};

class PagedKeys {
 public:
  // Takes keys and values as these rows have them from now on. Throws where they were others
  // before.
  void Fit(const at::Tensor& k_TKD, const at::Tensor& v_TKD);

  // Room for that many blocks. After Fit.
  void Reserve(int64_t blocks);

  // Row t to places[t].
  void Write(absl::Span<const KeyPlace> places, const at::Tensor& k_TKD, const at::Tensor& v_TKD);

  // All rows of a block, of a layer that has been written.
  void Copy(int64_t from, int64_t to);

  const at::Tensor& keys_NKDB() const { return keys_NKDB_; }
  const at::Tensor& values_NKBD() const { return values_NKBD_; }
  int64_t blocks() const { return keys_NKDB_.defined() ? keys_NKDB_.size(0) : 0; }
  int64_t bytes() const;

 private:
  at::Tensor keys_NKDB_, values_NKBD_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_KEYS_H_
