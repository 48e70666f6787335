#include "data/example_digest.h"

#include <cstdint>

#include <c10/util/hash.h>

#include "absl/strings/str_cat.h"

namespace moonring::data {

std::string DigestOf(const std::vector<Example>& examples) {
  std::string digest;
  for (const Example& example : examples) {
    std::string bytes = absl::StrCat(
        digest, ";", example.desirable.has_value() ? (*example.desirable ? "1" : "0") : "");
    for (const Document& document : example.documents) {
      absl::StrAppend(&bytes, ";", document.ids.size(), ":");
      for (const std::vector<int32_t>* list :
           {&document.ids, &document.labels, &document.positions}) {
        bytes.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(int32_t));
      }
    }
    absl::StrAppend(&bytes, example.row);
    digest = c10::sha1(bytes).str();
  }
  return digest;
}

}  // namespace moonring::data
