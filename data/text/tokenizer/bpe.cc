#include "data/text/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/tokenizer/byte_alphabet.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kSpace = "\u2581";  // sentencepiece's space

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Bpe>> Bpe::Create(const BpeOptions& options) {
  auto bpe = std::unique_ptr<Bpe>(new Bpe);
  bpe->alphabet_ = options.alphabet;
  bpe->fuse_unknown_ = options.fuse_unknown;
  bpe->ignore_merges_ = options.ignore_merges;
  RETURN_IF_ERROR(bpe->AddVocabulary(options));
  RETURN_IF_ERROR(bpe->AddSymbols(options));
  RETURN_IF_ERROR(options.token_ranks.empty() ? bpe->AddMerges(options)
                                              : bpe->AddImpliedMerges(options));
  bpe->FindCuts();
  return bpe;
}

absl::Status Bpe::AddVocabulary(const BpeOptions& options) {
  vocabulary_.Reserve(options.vocabulary.size());
  for (const auto& [token, id] : options.vocabulary) RETURN_IF_ERROR(vocabulary_.Add(token, id));
  if (options.unknown.has_value()) {
    const auto id = IdOf(*options.unknown);
    if (!id.has_value())
      return absl::InvalidArgumentError(
          absl::StrCat("unk_token \"", *options.unknown, "\" is not in the vocabulary"));
    unknown_ = *id;
  }
  return absl::OkStatus();
}

absl::Status Bpe::AddSymbols(const BpeOptions& options) {
  byte_ids_.fill(-1);
  const bool bytes = alphabet_ == BpeAlphabet::kBytes;
  if (!bytes && options.byte_fallback) byte_ids_ = vocabulary_.ByteTokens();
  for (int byte = 0; bytes && byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    byte_ids_[byte] = IdOf(LettersOfBytes(absl::string_view(&letter, 1))).value_or(-1);
    if (options.byte_fallback && byte_ids_[byte] < 0) {
      return absl::UnimplementedError(
          "byte_fallback is not supported with ByteLevel where a byte has no token");
    }
  }
  for (const auto& [token, id] : vocabulary_.ids()) {
    if (bytes) {
      if (!ignore_merges_) break;
      if (auto word = BytesOfLetters(token)) words_.emplace(*std::move(word), id);
    } else if (size_t at = 0; !token.empty()) {
      const char32_t first = NextCodePoint(token, at);
      if (at == token.size()) characters_.emplace(first, id);
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::AddMerges(const BpeOptions& options) {
  if (options.merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    return absl::InvalidArgumentError("too many merges");
  merges_.reserve(options.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < options.merges.size(); ++rank) {
    const auto& [left, right] = options.merges[rank];
    joined.assign(left.data(), left.size());
    joined.append(right.data(), right.size());
    const absl::string_view parts[] = {left, right, joined};
    int32_t ids[3];
    for (int i = 0; i < 3; ++i) {
      const auto found = IdOf(parts[i]);
      if (!found.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("merges[", rank, "] (\"", left, "\" and \"",
                                                       right, "\"): \"", parts[i],
                                                       "\" is not in the vocabulary"));
      }
      ids[i] = *found;
    }
    merges_.insert_or_assign(PairKey(ids[0], ids[1]), Merge{static_cast<int32_t>(rank), ids[2]});
  }
  return absl::OkStatus();
}

absl::Status Bpe::AddImpliedMerges(const BpeOptions& options) {
  if (options.token_ranks.size() != static_cast<size_t>(end_id())) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.token_ranks.size(), " ranks for ", end_id(), " ids"));
  }
  for (int32_t id = 0; id < end_id(); ++id) {
    const std::string* token = TokenOf(id);
    if (token == nullptr || options.token_ranks[id] < 0) continue;
    for (size_t at = 0; at < token->size();) {
      NextCodePoint(*token, at);
      const absl::string_view text = *token;
      const auto left = IdOf(text.substr(0, at)), right = IdOf(text.substr(at));
      if (left.has_value() && right.has_value())
        merges_.emplace(PairKey(*left, *right), Merge{options.token_ranks[id], id});
    }
  }
  return absl::OkStatus();
}

std::optional<int32_t> Bpe::WholeWord(absl::string_view word) const {
  if (alphabet_ == BpeAlphabet::kCharacters) return IdOf(word);
  const auto found = words_.find(word);
  if (found == words_.end()) return std::nullopt;
  return found->second;
}

// Decides where words can be split: before each U+2581 that follows another character. The parts
// are then encoded separately, which gives the same result if no merge crosses the boundary, that
// is, if no merge has a left token that ends there and a right token that begins there. Therefore
// there is no split after a character that ends the left token of such a merge. There are no splits
// at all if such a left token represents characters other than its text, or if characters are
// dropped (which makes other characters adjacent).
void Bpe::FindCuts() {
  size_t at = 0;
  if (alphabet_ != BpeAlphabet::kCharacters || !characters_.contains(NextCodePoint(kSpace, at)))
    return;
  if (unknown_ < 0 && std::find(byte_ids_.begin(), byte_ids_.end(), -1) != byte_ids_.end()) return;
  std::vector<absl::string_view> stand_ins;
  if (unknown_ >= 0) stand_ins.push_back(*TokenOf(unknown_));
  for (const int32_t id : byte_ids_) {
    if (id >= 0) stand_ins.push_back(*TokenOf(id));
  }
  for (const auto& [pair, merge] : merges_) {
    const std::string& left = *TokenOf(static_cast<int32_t>(pair >> 32));
    const std::string& right = *TokenOf(static_cast<int32_t>(pair & 0xFFFFFFFF));
    if (!absl::StartsWith(right, kSpace) || absl::EndsWith(left, kSpace) || left.empty()) continue;
    if (std::any_of(stand_ins.begin(), stand_ins.end(),
                    [&](absl::string_view text) { return absl::EndsWith(left, text); }))
      return;
    joins_space_[static_cast<uint8_t>(left.back())] = true;
  }
  cuts_ = true;
}

std::unique_ptr<TokenModel::Workspace> Bpe::NewWorkspace() const {
  return std::make_unique<Workspace>();
}

void Bpe::Encode(absl::string_view word, TokenModel::Workspace& base,
                 std::vector<int32_t>& ids) const {
  auto& workspace = static_cast<Workspace&>(base);
  if (cuts_) {
    if (ignore_merges_) {
      if (const auto whole = WholeWord(word)) return ids.push_back(*whole);
    }
    size_t begin = 0;
    for (size_t at = word.find(kSpace, 1); at != absl::string_view::npos;
         at = word.find(kSpace, at + kSpace.size())) {
      const absl::string_view part = word.substr(begin, at - begin);
      if (absl::EndsWith(part, kSpace) || joins_space_[static_cast<uint8_t>(part.back())]) continue;
      EncodePart(part, workspace, ids);
      begin = at;
    }
    word.remove_prefix(begin);
  }
  EncodePart(word, workspace, ids);
}

void Bpe::EncodePart(absl::string_view word, Workspace& workspace,
                     std::vector<int32_t>& ids) const {
  workspace.memory_.Tokens(word, ids, [&](std::vector<int32_t>& out) {
    if (const auto whole = ignore_merges_ && !cuts_ ? WholeWord(word) : std::nullopt)
      return out.push_back(*whole);
    Symbols(word, workspace);
    MergeAll(workspace);
    for (int32_t at = workspace.symbols_.empty() ? -1 : 0; at >= 0;
         at = workspace.symbols_[at].next)
      out.push_back(workspace.symbols_[at].id);
  });
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

template <typename Add>
void Bpe::ByteSymbols(absl::string_view word, Add add) const {
  bool after_unknown = false;
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool known = id >= 0;
    if (known || (unknown_ >= 0 && !(after_unknown && fuse_unknown_))) add(known ? id : unknown_);
    after_unknown = !known;
  }
}

template <typename Add>
void Bpe::CharacterSymbols(absl::string_view word, Add add) const {
  bool waits = false;  // an unknown token is held until a known character or the end
  const auto add_waiting = [&] {
    if (waits) add(unknown_);
    waits = false;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    if (const auto found = characters_.find(NextCodePoint(word, at)); found != characters_.end()) {
      add_waiting();
      add(found->second);
      continue;
    }
    const absl::string_view bytes = word.substr(begin, at - begin);
    const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id_of(byte) >= 0; })) {
      for (const char byte : bytes) add(id_of(byte));
    } else if (unknown_ >= 0) {
      if (!fuse_unknown_) add_waiting();
      waits = true;
    }
  }
  add_waiting();
}

void Bpe::Symbols(absl::string_view word, Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  symbols.clear();
  const auto add = [&symbols](int32_t id) {
    const int32_t at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  if (alphabet_ == BpeAlphabet::kBytes) {
    ByteSymbols(word, add);
  } else {
    CharacterSymbols(word, add);
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
    if (left.id != best.left || left.next < 0 || symbols[left.next].id != best.right)
      continue;  // outdated: one of the two has been merged
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
