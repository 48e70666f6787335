#ifndef MOONRING_COMM_LAYOUT_H_
#define MOONRING_COMM_LAYOUT_H_

// A layout: which rank owns which tokens of one micro-batch. It partitions a packed stream of
// documents over the ranks of an sp group.
//
// Every token belongs to exactly one rank. A border between ranks is at a multiple of
// BlockSize(length) within its document, or at a document's end, so that any number of ranks
// computes the same blocks. Lengths are arbitrary: nothing has to be divisible, a document may be
// empty, and a rank may own nothing.
//
// The ranks form a grid, context x heads. The stream is cut over the P positions of the context
// axis, in one of these ways:
//
//   contiguous       position c owns one contiguous run of about T / P of the stream's T tokens
//                    (each border is moved by up to half a block). The cost is not considered.
//   zigzag           a document of 2P blocks or more is cut into 2P chunks of whole blocks, and
//                    position c owns chunks c and 2P-1-c: equal causal work. Single blocks from
//                    the document's front even out the load: it is within 2% of the mean for
//                    documents of 64 blocks or more on up to 8 positions. The costliest of the
//                    shorter documents are spread in the same way (blocks c and n-1-c of n blocks
//                    go to one position) as long as this lowers the largest load; each other
//                    document goes whole to the least loaded position.
//   whole documents  no document is cut; the costliest first, each goes to the least loaded
//                    position.
//
// The rows of one context position are then cut into even runs over its ranks on the heads axis.
// For attention these ranks exchange rows for heads (Ulysses), so every rank of a context position
// has the same attention work however the rows are cut.
//
// A layout is a pure function of (lengths, division, cost): every rank computes the same one
// without communication. Cost: O(T / block + documents * ranks).

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::comm {

enum class Ownership { kContiguous, kZigzag, kWholeDocuments };
absl::string_view OwnershipName(Ownership ownership);

// Which axis of the grid varies fastest with the rank; neighbouring ranks are likely to be on one
// machine:
//   head first      rank = context * heads + head
//   context first   rank = head * contexts + context
enum class Placement { kHeadFirst, kContextFirst };

// How a stream is divided over the ranks.
struct Division {
  int contexts = 1;
  Ownership ownership = Ownership::kContiguous;
  int heads = 1;
  Placement placement = Placement::kHeadFirst;

  int ranks() const { return contexts * heads; }
  int Rank(int context, int head) const {
    return placement == Placement::kHeadFirst ? context * heads + head : head * contexts + context;
  }
  int ContextOf(int rank) const {
    return placement == Placement::kHeadFirst ? rank / heads : rank % contexts;
  }
  int HeadOf(int rank) const {
    return placement == Placement::kHeadFirst ? rank % heads : rank / contexts;
  }
  friend bool operator==(const Division&, const Division&) = default;
};

// The size of the blocks of a document, at whose borders the document may be cut: length / 64
// rounded down to a power of two, at least 64 (up to 8191 tokens) and at most 256 (from 16384
// tokens on). It depends on the document's length only, so the blocks do not depend on the number
// of ranks.
int64_t BlockSize(int64_t document_length);

// Tokens [begin, end) of one document, counted from the document's start.
struct Span {
  int64_t document, begin, end;
  int64_t tokens() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

// The cost of tokens [begin, end) of a document. It must be additive: cost(d, a, b) + cost(d, b, c)
// == cost(d, a, c).
using SpanCost = std::function<double(int64_t document, int64_t begin, int64_t end)>;

class Layout {
 public:
  // `cost` defaults to the number of tokens. INVALID_ARGUMENT for an axis below 1 or a negative
  // length. `lengths` may be empty.
  static absl::StatusOr<std::shared_ptr<const Layout>> Create(std::vector<int64_t> lengths,
                                                              Division division,
                                                              SpanCost cost = nullptr);

  // Returns a layout with the same rows on the same ranks, but with other borders between
  // documents; the new `lengths` have the same sum. For attention within other documents than those
  // by which the stream was divided. Borders between ranks need not be at block borders of the new
  // documents. INVALID_ARGUMENT for a negative length or another total. Cost: O(spans + documents).
  absl::StatusOr<std::shared_ptr<const Layout>> WithDocuments(std::vector<int64_t> lengths) const;

  const Division& division() const { return division_; }
  int ranks() const { return division_.ranks(); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t tokens() const { return offsets_.back(); }
  // Where document d begins in the stream; document_offset(number of documents) == tokens().
  int64_t document_offset(int64_t d) const { return offsets_.at(d); }

  // The spans that a rank owns, in the order of its local rows: by document, then by position.
  // Adjacent spans of a document are merged.
  const std::vector<Span>& spans(int rank) const { return spans_.at(rank); }
  int64_t local_tokens(int rank) const { return local_tokens_.at(rank); }

  // The spans of a position on the context axis: the rows of its ranks one after another, in the
  // order of the heads axis.
  const std::vector<Span>& context_spans(int context) const { return context_spans_.at(context); }
  int64_t context_tokens(int context) const;

  // Returns int64 [T_local] on the host: for each local row of the rank, its row in the stream.
  at::Tensor Index(int rank) const;

  // Selects the rank's rows of dim 0, for any dtype and device: [T, ...] -> [T_local, ...]. Returns
  // a view if the rows are one contiguous run. Differentiable.
  at::Tensor Cut(const at::Tensor& stream_T, int rank) const;

  // The inverse of Cut over all ranks: one [T_local, ...] tensor per rank -> [T, ...].
  // Differentiable.
  at::Tensor Join(const std::vector<at::Tensor>& locals) const;

 private:
  Layout(std::vector<int64_t> lengths, Division division,
         std::vector<std::vector<Span>> context_spans, std::vector<std::vector<Span>> spans);

  std::vector<int64_t> lengths_;
  std::vector<int64_t> offsets_;  // one number more than documents
  Division division_;
  std::vector<std::vector<Span>> context_spans_, spans_;  // per context position; per rank
  std::vector<int64_t> local_tokens_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LAYOUT_H_
