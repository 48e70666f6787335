#include "data/text/tokenizer/byte_trie.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace moonring::data {

ByteTrie::ByteTrie(std::vector<std::pair<absl::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {  // keys that share the first `depth` bytes of a node
    size_t begin, end, depth;
  };
  std::vector<Range> nodes = {{0, keys.size(), 0}};
  bytes_.push_back('\0');
  for (size_t node = 0; node < nodes.size(); ++node) {
    auto [at, end, depth] = nodes[node];
    int32_t value = kNone;
    for (; at < end && keys[at].first.size() == depth; ++at) value = keys[at].second;
    values_.push_back(value);
    first_child_.push_back(static_cast<uint32_t>(nodes.size()));
    while (at < end) {
      const size_t begin = at;
      const char byte = keys[at].first[depth];
      while (at < end && keys[at].first[depth] == byte) ++at;
      nodes.push_back({begin, at, depth + 1});
      bytes_.push_back(byte);
    }
  }
  first_child_.push_back(static_cast<uint32_t>(nodes.size()));
}

int32_t ByteTrie::Step(int32_t node, char byte) const {
  const uint32_t begin = first_child_[node], end = first_child_[node + 1];
  const void* found =
      begin == end ? nullptr : std::memchr(bytes_.data() + begin, byte, end - begin);
  return found == nullptr ? kNone
                          : static_cast<int32_t>(static_cast<const char*>(found) - bytes_.data());
}

}  // namespace moonring::data
