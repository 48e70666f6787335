#include "data/example_ids.h"

#include <set>

namespace moonring::data {

std::vector<int32_t> IdsFrom(const std::vector<Example>& examples, int32_t first) {
  std::set<int32_t> found;
  for (const Example& example : examples) {
    for (const Document& document : example.documents) {
      for (const int32_t id : document.ids) {
        if (id >= first) found.insert(id);
      }
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace moonring::data
