#include "data/steps/prefixes.h"

#include <algorithm>

namespace moonring::data {
namespace {

int64_t PositionAt(const Document& document, int64_t t) {
  return document.positions.empty() ? t : document.positions[t];
}

}  // namespace

int64_t SharedTokens(const std::vector<const Document*>& documents) {
  if (documents.size() < 2) return 0;
  const Document& first = *documents.front();
  const auto begin = first.labels.begin();
  int64_t same =
      std::find_if(begin, first.labels.end(), [](int32_t label) { return label != kNotLearnt; }) -
      begin;
  for (const Document* document : documents) {
    int64_t t = 0;
    same = std::min({same, document->size(), static_cast<int64_t>(document->labels.size())});
    for (; t < same; ++t) {
      if (document->ids[t] != first.ids[t] || document->labels[t] != kNotLearnt ||
          PositionAt(*document, t) != PositionAt(first, t))
        break;
    }
    same = t;
  }
  return std::max<int64_t>(0, same - 1);
}

}  // namespace moonring::data
