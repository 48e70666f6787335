#ifndef MOONRING_TRAINER_EMBEDDING_NAMES_H_
#define MOONRING_TRAINER_EMBEDDING_NAMES_H_

// Which parameters are embeddings, told by name: those that Transformers' Trainer (4.57 and 5.23,
// create_optimizer) has bitsandbytes keep in 32 bits, whatever the optimizer keeps the others in:
// the weight of every nn.Embedding. A head that is tied to one is the same weight.

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// Whether the module that the weight is in, the part of the name before the last dot, is called as
// embeddings of the families that are read are: embed_tokens, embed_tokens_per_layer, embeddings,
// tok_embeddings.
bool IsEmbedding(absl::string_view name);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_EMBEDDING_NAMES_H_
