#ifndef MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_
#define MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_

// Divides a packed stream of documents into chunks of C tokens; all chunks together are called a
// grid. Every document begins with a new chunk, and its last chunk is padded with zero rows.
//
// Chunks are ordered in rounds: round r has the r-th chunk of every document that has so many.
// Documents are ordered from the longest to the shortest, so that the documents of a round are the
// first documents of the previous round. A scan over the rounds therefore processes all documents
// of a round in parallel, as slices of tensors.
//
// Packed form: [T, H, X] -> [N, H, C, X] for T tokens and H heads of X numbers, where N is the
// number of chunks of all documents: at most T / C + documents.
//
// Part() returns a grid of some consecutive rounds only, so that a long stream can be processed
// part by part. A part reads and writes only its own tokens of a tensor [T, H, X]. Its documents
// are the first ones of the whole grid's order. The caller passes their states from part to part.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

class DocumentChunks {
 public:
  // `lengths`: tokens of each document; an empty document has no chunk. `chunk`: C.
  DocumentChunks(const std::vector<int64_t>& lengths, int64_t chunk, at::Device device);

  // The number of documents. In a part (see Part), only documents that have a chunk in the part are
  // counted.
  int64_t documents() const { return documents_; }
  int64_t chunks() const { return chunks_; }
  // The number of documents in each round.
  const std::vector<int64_t>& rounds() const { return rounds_; }
  // Each round's first chunk, followed by N: int64 [rounds + 1], on the device.
  const at::Tensor& round_begin() const { return round_begin_; }

  // For kernels, int64 [N C] on a GPU: for each row of each chunk the index of its token in the
  // stream, or -1 for padding. Undefined on a CPU, and in a grid without tokens.
  const at::Tensor& token_of_slot() const { return token_of_slot_; }

  // The part with rounds [first, first + count).
  DocumentChunks Part(int64_t first, int64_t count) const;
  // In a part: the number of chunks of the whole grid that precede the part.
  int64_t chunks_before() const { return chunks_before_; }

  // The grid's tokens of `x_THX` in packed form and in `dtype`, contiguous.
  at::Tensor Pack(const at::Tensor& x_THX, at::ScalarType dtype) const;
  // The inverse: writes the packed rows to the grid's tokens of `x_THX`; padding is dropped.
  void Unpack(const at::Tensor& x_NHCX, const at::Tensor& x_THX) const;

  // The grid's tokens, concatenated: [T', ...].
  at::Tensor Tokens(const at::Tensor& x_T) const;

  // Order permutes a tensor with one row per document from the stream's order to the rounds' order
  // (longest document first); Restore permutes it back. Not for a part.
  at::Tensor Order(const at::Tensor& x_DX) const;
  at::Tensor Restore(const at::Tensor& x_DX) const;

 private:
  DocumentChunks(const DocumentChunks& whole, int64_t first, int64_t count);
  // Computes from the rounds which token is in which row of which chunk (token_T_, slot_T_).
  void Place(int64_t first_round);

  std::vector<int64_t> lengths_, restore_;  // for each document: number of tokens, index in the
                                            // rounds' order
  at::Device device_;
  int64_t chunk_, chunks_ = 0, chunks_before_ = 0, documents_ = 0;
  std::vector<int64_t> rounds_;
  int64_t begin_ = 0, tokens_ = 0;  // index of the first token in the stream, and number of tokens
  at::Tensor token_T_;              // the tokens' indices in the stream; undefined if contiguous
  at::Tensor slot_T_;               // for each token: chunk x C + row; undefined if these are 0, 1,
                                    // ...
  at::Tensor round_begin_, token_of_slot_;
  at::Tensor order_D_, restore_D_;  // a permutation and its inverse
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DOCUMENT_CHUNKS_H_
