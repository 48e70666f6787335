#include "attention/kernels/mask.h"

#include <algorithm>
#include <string>
#include <utility>

#include <zlib.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::attention {
namespace {

// Names a document and shows that counting starts at 0.
std::string Named(int64_t d, int64_t count) {
  return absl::StrCat("document ", d, " of 0..", count - 1);
}

absl::Status ValidateDocuments(absl::Span<const int64_t> lengths,
                               absl::Span<const DocumentMask> documents) {
  const auto count = static_cast<int64_t>(lengths.size());
  if (documents.size() != lengths.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask: ", documents.size(), " documents, the stream has ", count));
  }
  for (int64_t d = 0; d < count; ++d) {
    const auto& [prefix, parent, tokens] = documents[d];
    const auto wrong = [&](const auto&... words) {
      return absl::InvalidArgumentError(absl::StrCat("mask: ", Named(d, count), ": ", words...));
    };
    if (prefix < 0 || prefix > lengths[d])
      return wrong("a prefix of ", prefix, " tokens, it has ", lengths[d]);
    if (parent < -1 || parent >= count || parent == d)
      return wrong("parent ", parent, ", expected another one, or -1 for none");
    if (parent == -1 && tokens != 0) return wrong(tokens, " tokens of a parent, and no parent");
    if (parent >= 0 && (tokens < 0 || tokens > lengths[parent])) {
      return wrong(tokens, " tokens of its parent, document ", parent, ", which has ",
                   lengths[parent]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Mask::Mask(std::vector<int64_t> lengths, std::vector<DocumentMask> documents,
           std::optional<int64_t> window, std::vector<std::vector<Before>> before)
    : lengths_(std::move(lengths)),
      documents_(std::move(documents)),
      window_(window),
      before_(std::move(before)) {
  for (const DocumentMask& document : documents_)
    is_plain_ = is_plain_ && document.prefix == 0 && document.parent == -1;
}

absl::StatusOr<std::shared_ptr<const Mask>> Mask::Create(std::vector<int64_t> lengths,
                                                         std::vector<DocumentMask> documents,
                                                         std::optional<int64_t> window) {
  if (documents.empty()) documents.resize(lengths.size());
  if (auto status = ValidateDocuments(lengths, documents); !status.ok()) return status;
  if (window.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask: a window of ", *window, " tokens, expected at least 1, or 0 for none"));
  }
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<std::vector<Before>> before(count);
  for (int64_t d = 0; d < count; ++d) {
    int64_t tokens = 0;
    for (int64_t child = d; documents[child].parent >= 0; child = documents[child].parent) {
      before[d].push_back({documents[child].parent, documents[child].parent_tokens});
      if (static_cast<int64_t>(before[d].size()) == count) {
        return absl::InvalidArgumentError(
            absl::StrCat("mask: ", Named(d, count), ": its parents go in a circle"));
      }
    }
    std::reverse(before[d].begin(), before[d].end());
    for (Before& some : before[d]) some.place = std::exchange(tokens, tokens + some.tokens);
  }
  return std::shared_ptr<const Mask>(
      new Mask(std::move(lengths), std::move(documents), window, std::move(before)));
}

double Mask::Area(int64_t d, int64_t begin, int64_t end) const {
  // The sum of t + 1 over the tokens [from, to).
  const auto causal = [](int64_t from, int64_t to) {
    return static_cast<double>(to - from) * static_cast<double>(from + to + 1) / 2;
  };
  const int64_t p = documents_[d].prefix, middle = std::clamp(p, begin, end);
  return static_cast<double>(middle - begin) * static_cast<double>(p) + causal(middle, end) +
         static_cast<double>(end - begin) * static_cast<double>(place(d));
}

uint32_t Mask::Checksum(uint32_t before) const {
  const auto add = [&](int64_t number) {
    before = static_cast<uint32_t>(
        crc32_z(before, reinterpret_cast<const Bytef*>(&number), sizeof(number)));
  };
  add(static_cast<int64_t>(documents_.size()));
  for (const DocumentMask& document : documents_) {
    add(document.prefix);
    add(document.parent);
    add(document.parent_tokens);
  }
  add(window_.value_or(-1));
  return before;
}

const Mask* MaskOf(const LayerMasks& masks, int64_t layer) {
  const Mask* mask = masks.empty() ? nullptr : masks[layer % masks.size()].get();
  return mask == nullptr || mask->is_plain() ? nullptr : mask;
}

int64_t WindowOf(const LayerMasks& masks, int64_t layer, int64_t own) {
  return masks.empty() ? own : masks[layer % masks.size()]->WindowOf(own);
}

absl::Status Validate(const LayerMasks& masks, absl::Span<const int64_t> lengths) {
  for (size_t m = 0; m < masks.size(); ++m) {
    if (masks[m] == nullptr || masks[m]->lengths() != lengths) {
      return absl::InvalidArgumentError(
          absl::StrCat("mask ", m, " is of documents of other lengths than the micro-batch"));
    }
  }
  return absl::OkStatus();
}

}  // namespace moonring::attention
