#include "data/text/tokenizer/word_piece.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/tokenizer/word_memory.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {

struct WordPiece::Workspace final : TokenModel::Workspace {
  WordMemory memory;
};

absl::StatusOr<std::unique_ptr<const WordPiece>> WordPiece::Create(
    const WordPieceOptions& options) {
  auto made = std::unique_ptr<WordPiece>(new WordPiece);
  made->longest_word_ = options.longest_word;
  made->vocabulary_.Reserve(options.vocabulary.size());
  std::vector<std::pair<absl::string_view, int32_t>> keys;
  for (const auto& [token, id] : options.vocabulary) {
    RETURN_IF_ERROR(CheckTokenSize(token, absl::StrCat("the token of id ", id)));
    RETURN_IF_ERROR(made->vocabulary_.Add(token, id));
    keys.emplace_back(token, static_cast<int32_t>(id));
  }
  made->trie_ = ByteTrie(std::move(keys));
  made->continuing_ = ByteTrie::kRoot;
  for (const char byte : options.continuing_prefix) {
    if (made->continuing_ != ByteTrie::kNone)
      made->continuing_ = made->trie_.Step(made->continuing_, byte);
  }
  const auto unknown = made->IdOf(options.unknown);
  if (!unknown.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat("unk_token \"", options.unknown, "\" is not in the vocabulary"));
  made->unknown_ = *unknown;
  return made;
}

std::unique_ptr<TokenModel::Workspace> WordPiece::NewWorkspace() const {
  return std::make_unique<Workspace>();
}

bool WordPiece::Cut(absl::string_view word, std::vector<int32_t>& ids) const {
  int64_t characters = 0;
  for (size_t at = 0; at < word.size(); ++characters) NextCodePoint(word, at);
  if (characters > longest_word_) return false;
  for (size_t begin = 0; begin < word.size();) {
    int32_t node = begin == 0 ? ByteTrie::kRoot : continuing_;
    int32_t longest = ByteTrie::kNone;
    size_t longest_end = begin;
    for (size_t end = begin; node != ByteTrie::kNone && end < word.size();) {
      node = trie_.Step(node, word[end++]);
      if (node == ByteTrie::kNone || trie_.ValueAt(node) == ByteTrie::kNone) continue;
      longest = trie_.ValueAt(node);
      longest_end = end;
    }
    if (longest == ByteTrie::kNone) return false;
    ids.push_back(longest);
    begin = longest_end;
  }
  return true;
}

void WordPiece::Encode(absl::string_view word, TokenModel::Workspace& workspace,
                       std::vector<int32_t>& ids) const {
  static_cast<Workspace&>(workspace).memory.Tokens(word, ids, [&](std::vector<int32_t>& out) {
    const size_t before = out.size();
    if (Cut(word, out)) return;
    out.resize(before);
    out.push_back(unknown_);
  });
}

}  // namespace moonring::data
