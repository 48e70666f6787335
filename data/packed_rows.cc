#include "data/packed_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

namespace moonring::data {
namespace {

Example MakeRow(std::vector<Document> texts, const RowOptions& options) {
  int64_t tokens = 0;
  for (const Document& text : texts) tokens += text.size();
  const RowPadding padding{.count = options.capacity + 1 - tokens, .id = options.pad};
  if (options.neat) return {.documents = std::move(texts), .padding = padding};
  return {.documents = {JoinedRow(texts, padding)}};
}

}  // namespace

Document JoinedRow(const std::vector<Document>& texts, const RowPadding& padding) {
  Document row;
  for (const Document& text : texts) {
    row.ids.insert(row.ids.end(), text.ids.begin(), text.ids.end());
    row.labels.insert(row.labels.end(), text.labels.begin(), text.labels.end());
    row.positions.resize(row.ids.size());
    std::iota(row.positions.end() - text.size(), row.positions.end(), 0);
  }
  const size_t whole = row.ids.size() + padding.count;
  row.ids.resize(whole, padding.id);
  row.labels.resize(whole, kNotLearnt);
  row.positions.resize(whole, 0);
  return row;
}

std::vector<Example> PackRows(std::vector<Document> documents, const RowOptions& options) {
  const auto shorter = [](const Document& a, const Document& b) { return a.size() < b.size(); };
  std::stable_sort(documents.begin(), documents.end(), shorter);
  TORCH_CHECK(documents.empty() || documents.back().size() <= options.capacity, "a document of ",
              documents.empty() ? 0 : documents.back().size(), " tokens for rows of ",
              options.capacity);
  std::vector<Example> rows;
  while (!documents.empty()) {
    std::vector<Document> texts;
    int64_t room = options.capacity;
    while (true) {
      const auto fits = [](int64_t tokens, const Document& document) {
        return tokens < document.size();
      };
      const auto after = std::upper_bound(documents.begin(), documents.end(), room, fits);
      if (after == documents.begin()) break;
      room -= (after - 1)->size();
      texts.push_back(std::move(*(after - 1)));
      documents.erase(after - 1);
    }
    rows.push_back(MakeRow(std::move(texts), options));
  }
  return rows;
}

}  // namespace moonring::data
