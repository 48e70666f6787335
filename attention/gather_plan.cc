#include "attention/gather_plan.h"

#include <algorithm>
#include <utility>

namespace moonring::attention {

ContextPlan PlanGather(const comm::Layout& layout, int place, const TileOptions& options) {
  const int places = layout.division().contexts;
  const std::vector<comm::Span>& queries = layout.context_spans(place);

  // What each place has of it, by rows there; then by rows of the buffer, where all lies in the order of the stream.
  std::vector<std::vector<KeySegment>> of_owner;
  std::vector<KeySegment*> in_order;
  for (int owner = 0; owner < places; ++owner) of_owner.push_back(SeenTokens(layout.context_spans(owner), queries, options.window));
  for (std::vector<KeySegment>& segments : of_owner) {
    for (KeySegment& segment : segments) in_order.push_back(&segment);
  }
  std::sort(in_order.begin(), in_order.end(), [](const KeySegment* a, const KeySegment* b) {
    return std::pair(a->tokens.document, a->tokens.begin) < std::pair(b->tokens.document, b->tokens.begin);
  });
  int64_t row = 0;
  std::vector<KeySegment> keys;
  for (KeySegment* segment : in_order) {
    segment->row = row;
    row += segment->tokens.tokens();
    // Neighbours become one, as tiles do not end where owners change.
    if (!keys.empty() && keys.back().tokens.document == segment->tokens.document && keys.back().tokens.end == segment->tokens.begin) {
      keys.back().tokens.end = segment->tokens.end;
    } else {
      keys.push_back(*segment);
    }
  }

  ContextStep step;
  for (int s = 0; s < places; ++s) {  // itself first; then so that not all send to one at a time
    const int to = (place + s) % places, from = (place + places - s) % places;
    const std::vector<KeySegment> sent = SeenTokens(layout.context_spans(place), layout.context_spans(to), options.window);
    if (!sent.empty()) step.send.push_back({to, RowsOf(sent)});
    if (!of_owner[from].empty()) step.receive.push_back({from, RowsOf(of_owner[from])});
  }
  step.tiles = PlanTiles(layout.lengths(), queries, keys, options);
  ContextPlan plan;
  plan.steps.push_back(std::move(step));
  plan.sliced = true;
  return plan;
}

}  // namespace moonring::attention
