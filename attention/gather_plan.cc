#include "attention/gather_plan.h"

#include <algorithm>
#include <utility>

namespace moonring::attention {
namespace {

using Segments = std::vector<KeySegment>;

// What each place has that `place` sees, by rows there.
std::vector<Segments> SeenOfOwners(const comm::Layout& layout, int place,
                                   const TileOptions& options) {
  const std::vector<comm::Span>& queries = layout.context_spans(place);
  std::vector<Segments> of_owner;
  for (int owner = 0; owner < layout.division().contexts; ++owner) {
    of_owner.push_back(SeenTokens(layout.context_spans(owner), queries, options));
  }
  return of_owner;
}

// The one step: itself first; then so that not all send to one at a time.
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

}  // namespace

ContextPlan PlanGather(const comm::Layout& layout, int place, const TileOptions& options) {
  // What each place has of it, by rows there; then by rows of the buffer, where all lies in the
  // order of the stream.
  std::vector<Segments> of_owner = SeenOfOwners(layout, place, options);
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
    // Neighbours become one, as tiles do not end where owners change.
    if (!keys.empty() && keys.back().tokens.document == segment->tokens.document &&
        keys.back().tokens.end == segment->tokens.begin) {
      keys.back().tokens.end = segment->tokens.end;
    } else {
      keys.push_back(*segment);
    }
  }

  ContextStep step = Exchange(layout, place, of_owner, options);
  step.tiles = PlanTiles(layout.lengths(), layout.context_spans(place), keys, options);
  ContextPlan plan;
  plan.steps.push_back(std::move(step));
  plan.sliced = true;
  return plan;
}

ContextPlan PlanGatherTraffic(const comm::Layout& layout, int place, int64_t window) {
  ContextPlan plan;
  const TileOptions options{.window = window};
  plan.steps.push_back(Exchange(layout, place, SeenOfOwners(layout, place, options), options));
  plan.sliced = true;
  return plan;
}

}  // namespace moonring::attention
