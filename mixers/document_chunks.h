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
//
// Some rounds one after another are a grid of their own, of the same stream: a part. It reads and
// writes its own tokens of a [T, H, X], its documents are the first ones of the grid's order, and
// their states go from part to part.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

class DocumentChunks {
 public:
  // A document may be empty: it has no chunk.
  DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk, at::Device device);

  // Those of the first round, where it is a part.
  int64_t documents() const { return documents_; }
  int64_t chunks() const { return chunks_; }
  // How many documents each round has.
  const std::vector<int64_t>& rounds() const { return rounds_; }
  // Each round's first chunk, and behind them N: int64 [rounds + 1], on the device.
  const at::Tensor& round_begin() const { return round_begin_; }

  // For kernels, int64 [N C] on a GPU: of each row of a chunk its token in the stream, -1 of a
  // filled one. Undefined on a CPU, and without tokens.
  const at::Tensor& token_of_slot() const { return token_of_slot_; }

  // Rounds [first, first + count) of it.
  DocumentChunks Part(int64_t first, int64_t count) const;
  // Of a part: the chunks of the grid before its own.
  int64_t chunks_before() const { return chunks_before_; }

  // Its own tokens of `x_THX` in `dtype`, contiguous.
  at::Tensor Pack(const at::Tensor& x_THX, at::ScalarType dtype) const;
  // Back again into its own tokens of `x_THX`: filled rows are dropped.
  void Unpack(const at::Tensor& x_NHCX, const at::Tensor& x_THX) const;

  // Its own tokens, one after another: [T', ...].
  at::Tensor Tokens(const at::Tensor& x_T) const;

  // Rows of documents in the rounds' order, and back. Not of a part.
  at::Tensor Order(const at::Tensor& x_DX) const;
  at::Tensor Restore(const at::Tensor& x_DX) const;

 private:
  DocumentChunks(const DocumentChunks& whole, int64_t first, int64_t count);
  // Places of its tokens, from the rounds.
  void Place(int64_t first_round);

  std::vector<int64_t> lengths_, restore_;  // of each document: tokens, place in the order
  at::Device device_;
  int64_t chunk_, chunks_ = 0, chunks_before_ = 0, documents_ = 0;
  std::vector<int64_t> rounds_;
  int64_t begin_ = 0, tokens_ = 0;  // where its tokens begin in the stream; how many they are
  at::Tensor token_T_;              // theirs in the stream; undefined where they are one run
  at::Tensor slot_T_;               // of each: chunk x C + row; undefined where they are 0, 1, ...
  at::Tensor round_begin_, token_of_slot_;
  at::Tensor order_D_, restore_D_;  // a permutation and its inverse
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DOCUMENT_CHUNKS_H_
