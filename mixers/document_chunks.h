#ifndef MOONRING_MIXERS_DOCUMENT_CHUNKS_H_
#define MOONRING_MIXERS_DOCUMENT_CHUNKS_H_

// A packed stream of documents as a grid of chunks of C tokens. A document begins a chunk of its
// own, and its last chunk is filled with zero rows.
//
// Chunks stand in rounds: round r holds the r-th chunk of every document that has one. Documents
// stand from the longest to the shortest, so that those of a round are the first ones of that order
// and of the round before: a scan over chunks takes slices only, and the documents go side by side.
//
// Packed: [T, H, X] -> [N, H, C, X], N the chunks of all documents: at most T / C + documents.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

class DocumentChunks {
 public:
  // A document may be empty: it has no chunk.
  DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk, at::Device device);

  int64_t documents() const { return order_D_.numel(); }
  int64_t chunks() const { return chunks_; }
  // How many documents each round has.
  const std::vector<int64_t>& rounds() const { return rounds_; }
  // Each round's first chunk, and behind them N: int64 [rounds + 1], on the device.
  const at::Tensor& round_begin() const { return round_begin_; }

  // On the device, int64: of each row of a chunk its token, -1 of a filled one [N C]; and of each
  // token its row [T].
  const at::Tensor& token_of_slot() const { return token_S_; }
  const at::Tensor& slot_of_token() const { return slot_T_; }

  // `x_THX` in `dtype`, contiguous.
  at::Tensor Pack(const at::Tensor& x_THX, at::ScalarType dtype) const;
  // Back again: filled rows are dropped.
  at::Tensor Unpack(const at::Tensor& x_NHCX) const;

  // Rows of documents in the rounds' order, and back.
  at::Tensor Order(const at::Tensor& x_DX) const;
  at::Tensor Restore(const at::Tensor& x_DX) const;

 private:
  int64_t chunk_, chunks_ = 0;
  std::vector<int64_t> rounds_;
  at::Tensor round_begin_, token_S_;
  at::Tensor slot_T_;               // of each token: chunk x C + row
  at::Tensor order_D_, restore_D_;  // a permutation and its inverse
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DOCUMENT_CHUNKS_H_
