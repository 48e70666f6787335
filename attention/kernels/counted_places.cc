#include "attention/kernels/counted_places.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace moonring::attention {
namespace {

// For each context rank: 2 x rows sent + rows received, its traffic in forward and backward if each
// row is sent directly to every reader. A reader is a context rank that attends to a document up to
// the token `end`. The rows that are sent from the document's tokens [b, e) are the sum over
// readers of min(end, e) - min(end, b).
std::vector<double> RowsThatTravel(const comm::Layout& layout) {
  const int contexts = layout.division().contexts;
  struct Readers {
    std::vector<int64_t> ends;
    std::vector<double> sums = {0.0};    // prefix sums of `ends`
    double Below(int64_t token) const {  // sum of min(end, token)
      const auto k = std::upper_bound(ends.begin(), ends.end(), token) - ends.begin();
      return sums[k] + static_cast<double>(token) * static_cast<double>(ends.size() - k);
    }
  };
  absl::flat_hash_map<int64_t, Readers> readers_of;
  const auto last_of_document = [](const std::vector<comm::Span>& spans, size_t i) {
    return i + 1 == spans.size() || spans[i + 1].document != spans[i].document;
  };
  for (int context = 0; context < contexts; ++context) {
    const std::vector<comm::Span>& spans = layout.context_spans(context);
    for (size_t i = 0; i < spans.size(); ++i) {
      if (last_of_document(spans, i)) readers_of[spans[i].document].ends.push_back(spans[i].end);
    }
  }
  for (auto& [document, readers] : readers_of) {
    std::sort(readers.ends.begin(), readers.ends.end());
    for (const int64_t end : readers.ends) {
      readers.sums.push_back(readers.sums.back() + static_cast<double>(end));
    }
  }
  std::vector<double> rows(contexts, 0.0);
  for (int context = 0; context < contexts; ++context) {
    const std::vector<comm::Span>& spans = layout.context_spans(context);
    for (size_t i = 0; i < spans.size(); ++i) {
      const Readers& readers = readers_of.at(spans[i].document);
      const auto own = static_cast<double>(spans[i].tokens());
      const double read = readers.Below(spans[i].end) - readers.Below(spans[i].begin) - own;
      rows[context] += 2 * read - own;
      if (last_of_document(spans, i)) rows[context] += static_cast<double>(spans[i].end);
    }
  }
  return rows;
}

}  // namespace

std::set<int> CountedPlaces(const comm::Layout& layout, const std::vector<double>& areas) {
  const std::vector<double> rows = RowsThatTravel(layout);
  const int places = static_cast<int>(areas.size()), most = std::min(places, kCountedPlaces);
  std::set<int> chosen;
  const int spread = most == places ? places : most / 3;
  for (int i = 0; i < spread; ++i) {
    chosen.insert(spread == 1 ? 0 : static_cast<int>(int64_t{i} * (places - 1) / (spread - 1)));
  }
  for (const auto& [loads, up_to] : {std::pair(&areas, 2 * most / 3), std::pair(&rows, most)}) {
    std::vector<int> by_load(places);
    std::iota(by_load.begin(), by_load.end(), 0);
    std::stable_sort(by_load.begin(), by_load.end(),
                     [loads = loads](int a, int b) { return (*loads)[a] > (*loads)[b]; });
    for (int i = 0; i < places && static_cast<int>(chosen.size()) < up_to; ++i) {
      chosen.insert(by_load[i]);
    }
  }
  return chosen;
}

}  // namespace moonring::attention
