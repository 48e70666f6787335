// A trie over a fixed set of strings, for finding those that are prefixes of a text.
//
// Nodes are numbered breadth first, so the children of a node are adjacent, in ascending order of
// their bytes. Memory: nine bytes per node. Cost: a step searches the bytes of the node's children.
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

  // Values must not be negative. For duplicate keys, the last value is used.
  explicit ByteTrie(std::vector<std::pair<absl::string_view, int32_t>> keys = {});

  int32_t Step(int32_t node, char byte) const;                   // kNone: no such child
  int32_t ValueAt(int32_t node) const { return values_[node]; }  // kNone: no key ends here

 private:
  std::vector<uint32_t> first_child_;  // children of node n: up to those of n + 1
  std::string bytes_;                  // byte of the edge to each node
  std::vector<int32_t> values_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_BYTE_TRIE_H_
