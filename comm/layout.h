#ifndef MOONRING_COMM_LAYOUT_H_
#define MOONRING_COMM_LAYOUT_H_

// Who owns which token of one micro-batch: a partition of a packed stream of documents over the
// ranks of an sp group.
//
// Every token belongs to exactly one rank. A border between ranks lies on the grid of its document
// (multiples of BlockSize(length)) or at a document's end, so that any number of ranks computes the
// same blocks. Lengths are arbitrary: nothing needs to divide anything, a document may be empty,
// and a rank may own nothing.
//
// The ranks are a grid, context x heads. The stream is cut over the context axis, P places, by
// ownership:
//
//   contiguous       place c owns one run of the stream, T / P tokens up to half a block at each of
//                    its borders. The cost plays no part.
//   zigzag           a document of 2P blocks or more is cut in 2P chunks of whole blocks, and place
//                    c owns chunks c and 2P-1-c: equal causal work. Where that is uneven, blocks of
//                    the front are dealt out one by one: to within 2% of the mean from 64 blocks
//                    on, for up to 8 places. Of the shorter documents the costliest are spread the
//                    same way (blocks c and n-1-c together) as far as this lowers the greatest
//                    load; each other one lives whole on the place with the least load.
//   whole documents  no document is cut; the costliest first, each to the place with the least
//                    load.
//
// The rows of one context place are then cut into even runs over its ranks on the heads axis, which
// trade them for heads when they come to attention (Ulysses); there every rank of a context place
// has the same work whatever the cut.
//
// A pure function of (lengths, division, cost): every rank makes the same layout by itself.
// Cost of making one: O(T / block + documents * ranks). Nothing is communicated.

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

// Which axis of the grid has neighbouring ranks, as neighbours are likely to share a machine:
//   head first      rank = context place * heads + head place
//   context first   rank = head place * contexts + context place
enum class Placement { kHeadFirst, kContextFirst };

// How ranks divide a stream.
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

// The block of a document's grid: length / 64 rounded down to a power of two, within 64 (up to 8191
// tokens) and 256 (from 16384 on). A function of the document's length alone, so that the blocks do
// not depend on the number of ranks.
int64_t BlockSize(int64_t document_length);

// Tokens [begin, end) of one document, counted from the document's start.
struct Span {
  int64_t document, begin, end;
  int64_t tokens() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

// The work of tokens [begin, end) of a document. It must be additive: cost(d, a, b) + cost(d, b, c)
// == cost(d, a, c).
using SpanCost = std::function<double(int64_t document, int64_t begin, int64_t end)>;

class Layout {
 public:
  // `cost` defaults to the number of tokens. INVALID_ARGUMENT for an axis below 1 or a negative
  // length; no documents at all are fine.
  static absl::StatusOr<std::shared_ptr<const Layout>> Create(std::vector<int64_t> lengths,
                                                              Division division,
                                                              SpanCost cost = nullptr);

  // The same rows of the stream on the same ranks, as rows of other documents, which sum to as many
  // tokens: for attention that sees by other borders than those by which the stream was divided.
  // Borders between ranks need not lie on their grids. INVALID_ARGUMENT for a negative length or
  // another sum. O(spans + documents).
  absl::StatusOr<std::shared_ptr<const Layout>> WithDocuments(std::vector<int64_t> lengths) const;

  const Division& division() const { return division_; }
  int ranks() const { return division_.ranks(); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t tokens() const { return offsets_.back(); }
  // Where document d begins in the stream; document_offset(number of documents) == tokens().
  int64_t document_offset(int64_t d) const { return offsets_.at(d); }

  // What a rank owns, in the order of its local rows: by document, then by place; adjacent spans of
  // a document are one.
  const std::vector<Span>& spans(int rank) const { return spans_.at(rank); }
  int64_t local_tokens(int rank) const { return local_tokens_.at(rank); }

  // The same of a place on the context axis: its ranks' rows one after another, by head place.
  const std::vector<Span>& context_spans(int context) const { return context_spans_.at(context); }
  int64_t context_tokens(int context) const;

  // int64 [T_local] on the host: the row of the stream that each local row is.
  at::Tensor Index(int rank) const;

  // The rank's rows of dim 0, any dtype and device: [T, ...] -> [T_local, ...]. A view where they
  // are one run. Differentiable.
  at::Tensor Cut(const at::Tensor& stream_T, int rank) const;

  // The inverse of Cut over all ranks: one [T_local, ...] each -> [T, ...]. Differentiable.
  at::Tensor Join(const std::vector<at::Tensor>& locals) const;

 private:
  Layout(std::vector<int64_t> lengths, Division division,
         std::vector<std::vector<Span>> context_spans, std::vector<std::vector<Span>> spans);

  std::vector<int64_t> lengths_;
  std::vector<int64_t> offsets_;  // one more than documents
  Division division_;
  std::vector<std::vector<Span>> context_spans_, spans_;  // by context place, by rank
  std::vector<int64_t> local_tokens_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LAYOUT_H_
