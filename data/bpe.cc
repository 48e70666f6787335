#include "data/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "data/byte_alphabet.h"

namespace moonring::data {
namespace {

constexpr int64_t kLargestId = (int64_t{1} << 24) - 1;  // a table of all ids is kept
constexpr size_t kLongestKnown = 128;                   // bytes of a word worth remembering
constexpr size_t kMostKnown = size_t{1} << 16;

uint64_t PairKey(int32_t left, int32_t right) { return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right); }

}  // namespace

absl::StatusOr<std::unique_ptr<const Bpe>> Bpe::Create(const BpeOptions& options) {
  auto bpe = std::unique_ptr<Bpe>(new Bpe);
  RETURN_IF_ERROR(bpe->AddVocabulary(options));
  RETURN_IF_ERROR(bpe->AddMerges(options));
  return bpe;
}

absl::Status Bpe::AddVocabulary(const BpeOptions& options) {
  ids_.reserve(options.vocabulary.size());
  byte_ids_.fill(-1);
  for (const auto& [token, id] : options.vocabulary) {
    if (id < 0 || id > kLargestId) return absl::InvalidArgumentError(absl::StrCat("vocab: token \"", token, "\" has id ", id, ", wanted 0 to ", kLargestId));
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
    if (tokens_[id].has_value()) return absl::InvalidArgumentError(absl::StrCat("vocab: tokens \"", *tokens_[id], "\" and \"", token, "\" both have id ", id));
    if (!ids_.emplace(token, static_cast<int32_t>(id)).second) return absl::InvalidArgumentError(absl::StrCat("vocab: token \"", token, "\" comes twice"));
    tokens_[id] = std::string(token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    byte_ids_[byte] = IdOf(LettersOfBytes(absl::string_view(&letter, 1))).value_or(-1);
  }
  if (options.ignore_merges) {
    for (const auto& [token, id] : ids_) {
      if (auto bytes = BytesOfLetters(token)) words_.emplace(*std::move(bytes), id);
    }
  }
  fuse_unknown_ = options.fuse_unknown;
  if (options.unknown.has_value()) {
    const auto id = IdOf(*options.unknown);
    if (!id.has_value()) return absl::InvalidArgumentError(absl::StrCat("unk_token \"", *options.unknown, "\" is not in the vocabulary"));
    unknown_ = *id;
  }
  return absl::OkStatus();
}

absl::Status Bpe::AddMerges(const BpeOptions& options) {
  if (options.merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) return absl::InvalidArgumentError("too many merges");
  merges_.reserve(options.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < options.merges.size(); ++rank) {
    const auto& [left, right] = options.merges[rank];
    joined.assign(left.data(), left.size());
    joined.append(right.data(), right.size());
    const absl::string_view parts[] = {left, right, joined};
    int32_t ids[3];
    for (int i = 0; i < 3; ++i) {
      const auto found = ids_.find(parts[i]);
      if (found == ids_.end()) {
        return absl::InvalidArgumentError(absl::StrCat("merges[", rank, "] (\"", left, "\" and \"", right, "\"): \"", parts[i], "\" is not in the vocabulary"));
      }
      ids[i] = found->second;
    }
    merges_.insert_or_assign(PairKey(ids[0], ids[1]), Merge{static_cast<int32_t>(rank), ids[2]});
  }
  return absl::OkStatus();
}

std::optional<int32_t> Bpe::IdOf(absl::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Bpe::TokenOf(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size() || !tokens_[id].has_value()) return nullptr;
  return &*tokens_[id];
}

void Bpe::Encode(absl::string_view word, Workspace& workspace, std::vector<int32_t>& ids) const {
  const bool remembered = word.size() <= kLongestKnown;
  if (remembered) {
    if (const auto found = workspace.known_.find(word); found != workspace.known_.end()) {
      const auto begin = workspace.known_ids_.begin() + found->second.begin;
      ids.insert(ids.end(), begin, begin + found->second.size);
      return;
    }
  }
  const size_t before = ids.size();
  if (const auto found = words_.find(word); found != words_.end()) {
    ids.push_back(found->second);
  } else {
    Symbols(word, workspace);
    MergeAll(workspace);
    for (int32_t at = workspace.symbols_.empty() ? -1 : 0; at >= 0; at = workspace.symbols_[at].next) ids.push_back(workspace.symbols_[at].id);
  }
  if (!remembered) return;
  if (workspace.known_.size() >= kMostKnown) {
    workspace.known_.clear();
    workspace.known_ids_.clear();
  }
  workspace.known_.emplace(word, Workspace::Range{static_cast<uint32_t>(workspace.known_ids_.size()), static_cast<uint32_t>(ids.size() - before)});
  workspace.known_ids_.insert(workspace.known_ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::Symbols(absl::string_view word, Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  symbols.clear();
  bool after_unknown = false;
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool known = id >= 0;
    const bool kept = known || (unknown_ >= 0 && !(after_unknown && fuse_unknown_));
    if (kept) {
      const int32_t at = static_cast<int32_t>(symbols.size());
      symbols.push_back({known ? id : unknown_, at - 1, at + 1});
    }
    after_unknown = !known;
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::MergeAll(Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  heap.clear();
  const auto candidate = [&](int32_t at) -> std::optional<Workspace::Candidate> {
    const int32_t next = at < 0 ? -1 : symbols[at].next;
    if (next < 0) return std::nullopt;
    const Merge* merge = FindMerge(symbols[at].id, symbols[next].id);
    if (merge == nullptr) return std::nullopt;
    return Workspace::Candidate{merge->rank, at, symbols[at].id, symbols[next].id, merge->id};
  };
  const auto note = [&](int32_t at) {
    if (const auto found = candidate(at)) {
      heap.push_back(*found);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };
  for (int32_t at = 0; at < static_cast<int32_t>(symbols.size()); ++at) {
    if (const auto found = candidate(at)) heap.push_back(*found);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Workspace::Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbols[best.at];
    if (left.id != best.left || left.next < 0 || symbols[left.next].id != best.right) continue;  // one of the two was merged meanwhile
    auto& right = symbols[left.next];
    left.id = best.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.at;
    note(left.previous);
    note(best.at);
  }
}

}  // namespace moonring::data
