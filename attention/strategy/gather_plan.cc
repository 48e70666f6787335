#include "attention/strategy/gather_plan.h"

#include <algorithm>
#include <set>
#include <utility>

namespace moonring::attention {
namespace {

using Segments = std::vector<KeySegment>;

// For each context rank that owns keys, the keys that context rank `place` attends to, with their
// row indices at the owner.
std::vector<Segments> SeenOfOwners(const comm::Layout& layout, int place,
                                   const TileOptions& options) {
  const std::vector<comm::Span>& queries = layout.context_spans(place);
  std::vector<Segments> of_owner;
  for (int owner = 0; owner < layout.division().contexts; ++owner) {
    of_owner.push_back(SeenTokens(layout.context_spans(owner), queries, options));
  }
  return of_owner;
}

// The sends and receives of the plan's only step. The order of peers begins at this rank itself and
// is different on each rank, so that not all ranks send to the same rank at a time.
ContextStep Exchange(const comm::Layout& layout, int place, const std::vector<Segments>& of_owner,
                     const TileOptions& options) {
  const int places = layout.division().contexts;
  const std::vector<comm::Span>& own = layout.context_spans(place);
  ContextStep step;
  for (int s = 0; s < places; ++s) {
    const int to = (place + s) % places, from = (place + places - s) % places;
    const Segments sent = SeenTokens(own, layout.context_spans(to), options);
    if (!sent.empty()) step.send.push_back({to, RowsOf(sent)});
    if (!of_owner[from].empty()) step.receive.push_back({from, RowsOf(of_owner[from])});
  }
  return step;
}

constexpr double kLeastSeen = 0.75;

// Whether to gather all rows with an all-gather (conditions: gather_plan.h).
bool GathersAll(const comm::Layout& layout, const TileOptions& options) {
  const int places = layout.division().contexts;
  if (places == 1 || options.window > 0 || options.mask != nullptr) return false;
  // For each document, the number of context ranks that have tokens of it.
  std::vector<int64_t> holders(layout.lengths().size());
  for (int place = 0; place < places; ++place) {
    if (layout.context_tokens(place) != layout.context_tokens(0)) return false;
    std::set<int64_t> documents;
    for (const comm::Span& span : layout.context_spans(place)) documents.insert(span.document);
    for (const int64_t document : documents) ++holders[document];
  }
  double seen = 0, all = 0;
  for (size_t d = 0; d < holders.size(); ++d) {
    const auto length = static_cast<double>(layout.lengths()[d]);
    seen += length * static_cast<double>(holders[d]);
    all += length * places;
  }
  return all > 0 && seen >= kLeastSeen * all;
}

// The rows of the keys within the concatenation of all context ranks' rows, in the order in which
// the buffer stores these keys.
std::vector<RowRange> RowsOfAll(const comm::Layout& layout,
                                const std::vector<Segments>& of_owner_there,
                                const std::vector<Segments>& of_owner_here) {
  std::vector<std::pair<int64_t, RowRange>> by_row;
  int64_t first = 0;
  for (size_t owner = 0; owner < of_owner_here.size(); ++owner) {
    for (size_t i = 0; i < of_owner_here[owner].size(); ++i) {
      const KeySegment &here = of_owner_here[owner][i], &there = of_owner_there[owner][i];
      by_row.push_back({here.row, {first + there.row, first + there.row + there.tokens.tokens()}});
    }
    first += layout.context_tokens(static_cast<int>(owner));
  }
  std::sort(by_row.begin(), by_row.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RowRange> rows;
  for (const auto& [row, range] : by_row) rows.push_back(range);
  return rows;
}

ContextPlan GatherPlanOf(const comm::Layout& layout, int place, const TileOptions& options,
                         bool has_collectives) {
  // The keys of each owner that this rank needs: `there` has their rows at the owner, `of_owner`
  // will have their rows in the buffer, which is in the order of the stream.
  std::vector<Segments> of_owner = SeenOfOwners(layout, place, options);
  const std::vector<Segments> there = of_owner;
  std::vector<KeySegment*> in_order;
  for (Segments& segments : of_owner) {
    for (KeySegment& segment : segments) in_order.push_back(&segment);
  }
  std::sort(in_order.begin(), in_order.end(), [](const KeySegment* a, const KeySegment* b) {
    return std::pair(a->tokens.document, a->tokens.begin) <
           std::pair(b->tokens.document, b->tokens.begin);
  });
  int64_t row = 0;
  std::vector<KeySegment> keys;
  for (KeySegment* segment : in_order) {
    segment->row = row;
    row += segment->tokens.tokens();
    // Adjacent segments are joined, since a tile may have keys of several owners.
    if (!keys.empty() && keys.back().tokens.document == segment->tokens.document &&
        keys.back().tokens.end == segment->tokens.begin) {
      keys.back().tokens.end = segment->tokens.end;
    } else {
      keys.push_back(*segment);
    }
  }

  ContextStep step = Exchange(layout, place, of_owner, options);
  if (has_collectives && GathersAll(layout, options))
    step.of_all = RowsOfAll(layout, there, of_owner);
  step.tiles = PlanTiles(layout.lengths(), layout.context_spans(place), keys, options);
  ContextPlan plan;
  plan.steps.push_back(std::move(step));
  plan.sliced = true;
  return plan;
}

}  // namespace

ContextPlan GatherTransport::Plan(const comm::Layout& layout, int place,
                                  const TileOptions& options) const {
  return GatherPlanOf(layout, place, options, /*has_collectives=*/false);
}

ContextPlan GatherTransport::PlanWithCollectives(const comm::Layout& layout, int place,
                                                 const TileOptions& options) const {
  return GatherPlanOf(layout, place, options, /*has_collectives=*/true);
}

ContextPlan GatherTransport::PlanTraffic(const comm::Layout& layout, int place,
                                         int64_t window) const {
  ContextPlan plan;
  const TileOptions options{.window = window};
  plan.steps.push_back(Exchange(layout, place, SeenOfOwners(layout, place, options), options));
  plan.sliced = true;
  return plan;
}

}  // namespace moonring::attention
