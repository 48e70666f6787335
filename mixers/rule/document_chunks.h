#ifndef MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_
#define MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_

// A packed stream of documents as a grid of chunks of C tokens. Every document begins with a new
// chunk, and its last chunk is padded with zero rows.
//
// Chunks are ordered in rounds: round r has the r-th chunk of every document that has one.
// Documents are ordered from the longest to the shortest, so that the documents of a round are the
// first ones of that order and of the previous round. A scan over chunks therefore only needs
// slices, and documents are processed in parallel.
//
// Packed form: [T, H, X] -> [N, H, C, X], where N is the number of chunks of all documents: at most
// T / C + documents.
//
// Some consecutive rounds form a grid of the same stream, called a part. It reads and writes only
// its own tokens of a [T, H, X], its documents are the first ones of the grid's order, and their
// states are passed from part to part.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

class DocumentChunks {
 public:
  // A document may be empty: it has no chunk.
  DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk, at::Device device);

  // The number of documents; in a part, those of its first round.
  int64_t documents() const { return documents_; }
  int64_t chunks() const { return chunks_; }
  // The number of documents in each round.
  const std::vector<int64_t>& rounds() const { return rounds_; }
  // Each round's first chunk, followed by N: int64 [rounds + 1], on the device.
  const at::Tensor& round_begin() const { return round_begin_; }

  // For kernels, int64 [N C] on a GPU: the token in the stream of each row of a chunk, -1 for
  // padding. Undefined on a CPU, and without tokens.
  const at::Tensor& token_of_slot() const { return token_of_slot_; }

  // The part with rounds [first, first + count).
  DocumentChunks Part(int64_t first, int64_t count) const;
  // In a part: the number of the grid's chunks before the part.
  int64_t chunks_before() const { return chunks_before_; }

  // The grid's tokens of `x_THX` in packed form and in `dtype`, contiguous.
  at::Tensor Pack(const at::Tensor& x_THX, at::ScalarType dtype) const;
  // The inverse: writes the packed rows to the grid's tokens of `x_THX`; padding is dropped.
  void Unpack(const at::Tensor& x_NHCX, const at::Tensor& x_THX) const;

  // The grid's tokens, concatenated: [T', ...].
  at::Tensor Tokens(const at::Tensor& x_T) const;

  // Permutes rows of documents to the rounds' order, and back. Not for a part.
  at::Tensor Order(const at::Tensor& x_DX) const;
  at::Tensor Restore(const at::Tensor& x_DX) const;

 private:
  DocumentChunks(const DocumentChunks& whole, int64_t first, int64_t count);
  // Computes the positions of the grid's tokens from the rounds.
  void Place(int64_t first_round);

  std::vector<int64_t> lengths_, restore_;  // of each document: number of tokens, index in the
                                            // order
  at::Device device_;
  int64_t chunk_, chunks_ = 0, chunks_before_ = 0, documents_ = 0;
  std::vector<int64_t> rounds_;
  int64_t begin_ = 0, tokens_ = 0;  // first token in the stream, and number of tokens
  at::Tensor token_T_;              // the tokens' indices in the stream; undefined if contiguous
  at::Tensor slot_T_;               // of each token: chunk x C + row; undefined where these are 0,
                                    // 1, ...
  at::Tensor round_begin_, token_of_slot_;
  at::Tensor order_D_, restore_D_;  // a permutation and its inverse
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_
