#include "attention/strategy/context_plan.h"

namespace moonring::attention {

int64_t KeyMove::count() const {
  int64_t count = 0;
  for (const RowRange& range : rows) count += range.rows();
  return count;
}

double ContextPlan::area() const {
  double pairs = 0;
  for (const ContextStep& step : steps) pairs += step.tiles.area();
  return pairs;
}

std::vector<RowRange> RowsOf(const std::vector<KeySegment>& segments) {
  std::vector<RowRange> rows;
  for (const KeySegment& segment : segments) {
    const RowRange range{segment.row, segment.row + segment.tokens.tokens()};
    if (!rows.empty() && rows.back().end == range.begin) {
      rows.back().end = range.end;
    } else {
      rows.push_back(range);
    }
  }
  return rows;
}

}  // namespace moonring::attention
