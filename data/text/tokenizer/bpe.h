// Byte-pair encoding: a word becomes one token a symbol of the alphabet; then, as long as two
// neighbours have a merge, those with the merge of lowest rank (of several, the leftmost) become
// one token. The merge of rank r is the r-th of the list; the token it makes is the one whose text
// is both texts joined. With ignore_merges a word that is a token is that token.
// Where tokens have ranks instead (tiktoken: its place in the file; sentencepiece: its score's), a
// merge has the rank of the token that it makes.
//
//   kBytes        symbols are bytes; vocabulary and merges are in GPT-2's alphabet
//                 (data/text/tokenizer/byte_alphabet.h), words are plain
//   kCharacters   symbols are code points, written as they are; with byte_fallback one without a
//                 token becomes the tokens <0x00> to <0xFF> of its UTF-8 where the vocabulary has
//                 all of them (sentencepiece's BPE)
//
// A symbol without a token becomes `unknown` (neighbouring ones a single one with fuse_unknown), or
// is dropped where there is no such token, as the tokenizers library does; as there, an unknown
// token comes after the byte tokens of characters that follow it directly.
//
// Cost: O(n log n) for a word of n symbols; a word seen before is a look-up
// (data/text/tokenizer/word_memory.h). A word may be a whole text: its parts between spaces
// (U+2581) are encoded, and remembered, by themselves where no merge can join them. Create fails
// with INVALID_ARGUMENT on a merge of a token that is not in the vocabulary, and on two tokens with
// one id; UNIMPLEMENTED where kBytes would need byte_fallback.
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
      vocabulary;  // in any order; ids may leave gaps. The texts are read by Create only
  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  // Instead of merges: by id, the rank of all merges that make a token (every two tokens whose
  // texts join to it); negative where none may.
  std::vector<int32_t> token_ranks;
  std::optional<std::string> unknown;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  bool byte_fallback = false;
};

class Bpe final : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<const Bpe>> Create(const BpeOptions& options);

  class Workspace;  // room to merge in, and the words it remembers
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
      byte_ids_{};  // of a byte's letter, or of <0x..> for kCharacters; -1 where there is none
  absl::flat_hash_map<char32_t, int32_t> characters_;  // kCharacters: tokens of one code point
  absl::flat_hash_map<uint64_t, Merge> merges_;        // by left id << 32 | right id
  absl::flat_hash_map<std::string, int32_t>
      words_;  // kBytes, where merges are ignored: bytes of tokens
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
    int32_t id;              // -1 once merged into its left neighbour
    int32_t previous, next;  // -1 at an end
  };
  struct Candidate {  // a merge that was possible when it was noted
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
