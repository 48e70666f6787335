#include "attention/hooks/document_keys.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "base/autograd/custom_function.h"

namespace moonring::attention {
namespace {

// comm::MoveRows, or MoveRowsBack if `back`, differentiable any number of times: the backward of
// each is the other.
std::vector<at::Tensor> Move(const std::vector<at::Tensor>& rows,
                             const std::shared_ptr<const comm::RowMap>& map,
                             const std::shared_ptr<comm::Communicator>& group, bool back) {
  if (map->stays()) return rows;
  return base::Apply({.name = "DocumentKeys",
                      .forward =
                          [&](base::Tensors*) {
                            std::vector<comm::MovedRows> moved;
                            for (const at::Tensor& each : rows)
                              moved.push_back({each, map, nullptr});
                            return back ? comm::MoveRowsBack(moved, group)
                                        : comm::MoveRows(moved, group);
                          },
                      .backward =
                          [map, group, back](base::BackwardCall& call) {
                            return Move(call.gradients, map, group, !back);
                          },
                      .differentiable_backward = true},
                     rows);
}

}  // namespace

at::Tensor AllowedKeys(const KeyTile& tile, int64_t window, const at::Device& device) {
  const auto places = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor key_1N = at::arange(tile.keys.rows(), places).unsqueeze(0);
  const at::Tensor query_M1 =
      at::arange(tile.place, tile.place + tile.queries.rows(), places).unsqueeze(1);
  at::Tensor allowed_MN = key_1N <= query_M1;
  if (window > 0) allowed_MN = allowed_MN & (key_1N > query_M1 - window);
  for (const RowRange& prefix : tile.prefix)
    allowed_MN = allowed_MN | ((key_1N >= prefix.begin) & (key_1N < prefix.end));
  return allowed_MN;
}

DocumentKeys::DocumentKeys(std::shared_ptr<const comm::Layout> layout, LayerMasks masks,
                           std::shared_ptr<comm::Communicator> group)
    : layout_(std::move(layout)), masks_(std::move(masks)), group_(std::move(group)) {}

// The end of the document's own keys, for queries up to `end`.
int64_t DocumentKeys::LastKey(const Mask* mask, int64_t document, int64_t end) const {
  return mask == nullptr ? end : std::max(end, mask->prefix(document));
}

std::vector<comm::Span> DocumentKeys::SpansFor(const Mask* mask, int rank,
                                               std::vector<Keys>* keys) const {
  std::vector<comm::Span> spans;
  const std::vector<comm::Span>& own = layout_->spans(rank);
  int64_t row = 0;
  for (size_t s = 0; s < own.size(); ++s) {
    const int64_t document = own[s].document;
    if (s + 1 < own.size() && own[s + 1].document == document) continue;
    const int64_t begin = row;
    const auto add = [&](int64_t of, int64_t tokens) {
      if (tokens > 0) spans.push_back({of, 0, tokens});
      row += tokens;
    };
    if (mask != nullptr)
      for (const Mask::Before& before : mask->before(document)) add(before.document, before.tokens);
    add(document, LastKey(mask, document, own[s].end));
    if (keys != nullptr) keys->push_back({document, begin, row - begin});
  }
  return spans;
}

const comm::RowMap& DocumentKeys::MapOf(int64_t layer) const {
  const Mask* const mask = MaskOf(masks_, layer);
  std::shared_ptr<const comm::RowMap>& map = maps_[mask];
  if (map == nullptr) {
    comm::SpansOfRanks wanted;
    for (int rank = 0; rank < layout_->ranks(); ++rank)
      wanted.push_back(SpansFor(mask, rank, nullptr));
    map = std::make_shared<const comm::RowMap>(comm::SpansOf(*layout_), wanted, group_->rank());
  }
  return *map;
}

std::vector<at::Tensor> DocumentKeys::Gather(int64_t layer, std::vector<at::Tensor> locals) const {
  MapOf(layer);
  const std::shared_ptr<const comm::RowMap>& map = maps_.at(MaskOf(masks_, layer));
  std::vector<at::Tensor> rows;
  for (const at::Tensor& local : locals) {
    // A tensor without a second dim gets one, because rows that move have columns.
    rows.push_back(local.dim() == 1 ? local.unsqueeze(1) : local);
  }
  std::vector<at::Tensor> gathered = Move(rows, map, group_, /*back=*/false);
  for (size_t i = 0; i < locals.size(); ++i)
    if (locals[i].dim() == 1) gathered[i] = gathered[i].squeeze(1);
  return gathered;
}

std::vector<KeyTile> DocumentKeys::Tiles(int64_t layer, int64_t rows) const {
  const Mask* const mask = MaskOf(masks_, layer);
  std::vector<Keys> keys;
  SpansFor(mask, group_->rank(), &keys);
  std::vector<KeyTile> tiles;
  int64_t row = 0;
  size_t k = 0;
  for (const comm::Span& span : layout_->spans(group_->rank())) {
    while (keys[k].document != span.document) ++k;
    const int64_t shift = mask == nullptr ? 0 : mask->place(span.document);
    std::vector<RowRange> prefix;
    if (mask != nullptr) {
      for (const Mask::Before& before : mask->before(span.document)) {
        prefix.push_back(
            {before.place, before.place + std::min(before.tokens, mask->prefix(before.document))});
      }
      prefix.push_back({shift, shift + mask->prefix(span.document)});
      std::erase_if(prefix, [](const RowRange& range) { return range.rows() == 0; });
    }
    for (int64_t begin = span.begin; begin < span.end;) {
      const int64_t end = std::min(span.end, (begin / rows + 1) * rows);
      const int64_t last = shift + LastKey(mask, span.document, end);
      tiles.push_back({span.document,
                       {row, row + end - begin},
                       shift + begin,
                       {keys[k].begin, keys[k].begin + last},
                       prefix});
      row += end - begin;
      begin = end;
    }
  }
  return tiles;
}

int64_t DocumentKeys::most_keys(int64_t layer) const {
  std::vector<Keys> keys;
  SpansFor(MaskOf(masks_, layer), group_->rank(), &keys);
  int64_t most = 0;
  for (const Keys& each : keys) most = std::max(most, each.count);
  return most;
}

}  // namespace moonring::attention
