// Byte-pair encoding. A word starts as one token per symbol. Then the adjacent pair whose merge has
// the lowest rank (the leftmost one if there are several) is replaced by one token, until no pair
// has a merge. The rank of a merge is its index in the list; it produces the token whose text is
// the concatenation of both texts. With ignore_merges, a word that is a token is encoded as that
// token. If tokens have ranks instead (tiktoken: position in the file; sentencepiece: position by
// score), a merge has the rank of the token that it produces.
//
//   kBytes        symbols are bytes; vocabulary and merges are in GPT-2's alphabet
//                 (data/text/tokenizer/byte_alphabet.h), words are plain text
//   kCharacters   symbols are code points (sentencepiece's BPE); with byte_fallback, a symbol
//                 without a token becomes the tokens <0x00> to <0xFF> of its UTF-8 bytes if the
//                 vocabulary has all of these
//
// A symbol without a token becomes `unknown` (with fuse_unknown, adjacent ones become one token),
// or is dropped if there is no unknown token, as in the tokenizers library. As in that library, an
// unknown token is placed after the byte tokens of the characters that directly follow it.
//
// Cost: O(n log n) for a word of n symbols; repeated words are looked up in a cache
// (data/text/tokenizer/word_memory.h). A word may be a whole text: its parts between spaces
// (U+2581) are encoded and cached separately if no merge can join them. Create fails with
// INVALID_ARGUMENT for a merge with a token outside the vocabulary and for two tokens with one id;
// with UNIMPLEMENTED for kBytes with byte_fallback.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_BPE_H_
#define MOONRING_DATA_TEXT_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/token_model.h"
#include "data/text/tokenizer/word_memory.h"

namespace moonring::data {

enum class BpeAlphabet { kBytes, kCharacters };

struct BpeOptions {
  BpeAlphabet alphabet = BpeAlphabet::kBytes;
  std::vector<std::pair<absl::string_view, int64_t>>
      vocabulary;  // in any order, ids may have gaps; views are used by Create only
  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  // Replaces `merges`: for each token id, the rank of all merges that produce it (any two tokens
  // whose concatenation it is); negative: no merge may produce it.
  std::vector<int32_t> token_ranks;
  std::optional<std::string> unknown;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  bool byte_fallback = false;
};

class Bpe final : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<const Bpe>> Create(const BpeOptions& options);

  class Workspace;  // buffers for merging, and the word cache
  std::unique_ptr<TokenModel::Workspace> NewWorkspace() const override;
  void Encode(absl::string_view word, TokenModel::Workspace& workspace,
              std::vector<int32_t>& ids) const override;
  bool takes_bytes() const override { return alphabet_ == BpeAlphabet::kBytes; }

 private:
  struct Merge {
    int32_t rank, id;
  };

  Bpe() = default;
  absl::Status AddVocabulary(const BpeOptions& options);
  absl::Status AddSymbols(const BpeOptions& options);
  absl::Status AddMerges(const BpeOptions& options);
  absl::Status AddImpliedMerges(const BpeOptions& options);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  std::optional<int32_t> WholeWord(absl::string_view word) const;
  void FindCuts();
  void EncodePart(absl::string_view part, Workspace& workspace, std::vector<int32_t>& ids) const;
  template <typename Add>
  void ByteSymbols(absl::string_view word, Add add) const;
  template <typename Add>
  void CharacterSymbols(absl::string_view word, Add add) const;
  void Symbols(absl::string_view word, Workspace& workspace) const;
  void MergeAll(Workspace& workspace) const;

  BpeAlphabet alphabet_ = BpeAlphabet::kBytes;
  std::array<int32_t, 256>
      byte_ids_{};  // token of each byte (kCharacters: the token <0x..>); -1: there is none
  absl::flat_hash_map<char32_t, int32_t> characters_;  // kCharacters: tokens of one code point
  absl::flat_hash_map<uint64_t, Merge> merges_;        // key: left id << 32 | right id
  absl::flat_hash_map<std::string, int32_t>
      words_;  // with ignore_merges: token by text (kBytes: by its bytes)
  int32_t unknown_ = -1;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  bool cuts_ = false;                    // see FindCuts
  std::array<bool, 256> joins_space_{};  // by the last byte of a character
};

class Bpe::Workspace final : public TokenModel::Workspace {
 private:
  friend class Bpe;
  struct Symbol {
    int32_t id;              // -1 after it was merged into its left neighbour
    int32_t previous, next;  // -1 at an end
  };
  struct Candidate {  // a merge that was possible when it was added
    int32_t rank, at, left, right, id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  WordMemory memory_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_BPE_H_
