#include "trainer/optimizer/embedding_names.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_split.h"

namespace moonring::trainer {
namespace {

constexpr absl::string_view kEmbeddings[] = {"embed_tokens", "embed_tokens_per_layer", "embeddings",
                                             "tok_embeddings"};

}  // namespace

bool IsEmbedding(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  return parts.size() > 1 && std::find(std::begin(kEmbeddings), std::end(kEmbeddings),
                                       parts[parts.size() - 2]) != std::end(kEmbeddings);
}

}  // namespace moonring::trainer
