// A fixed set of strings, looked for byte by byte at the beginning of a text.
//
// Nodes are numbered breadth first, so a node's children are neighbours, in rising order of their
// bytes. Memory: nine bytes a node. Cost: a step looks through the bytes of a node's children.
// Thread-safe.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_BYTE_TRIE_H_
#define MOONRING_DATA_TEXT_TOKENIZER_BYTE_TRIE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::data {

class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  // Values are not negative. Where a key comes again the last one counts.
  explicit ByteTrie(std::vector<std::pair<absl::string_view, int32_t>> keys = {});

  int32_t Step(int32_t node, char byte) const;                   // kNone where nothing goes on so
  int32_t ValueAt(int32_t node) const { return values_[node]; }  // kNone where no key ends

 private:
  std::vector<uint32_t> first_child_;  // of node n, up to that of n + 1
  std::string bytes_;                  // that lead to a node
  std::vector<int32_t> values_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_BYTE_TRIE_H_
