#ifndef MOONRING_TRAINER_OPTIMIZER_EMBEDDING_NAMES_H_
#define MOONRING_TRAINER_OPTIMIZER_EMBEDDING_NAMES_H_

// Recognizes embeddings by parameter name: the weights of nn.Embedding modules, whose optimizer
// state Transformers' Trainer (4.57 and 5.23, create_optimizer) keeps in 32 bits when it uses
// bitsandbytes. A head that is tied to an embedding is the same weight.

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// Whether the last module in the name (the component before the last dot) has one of the embedding
// names of the supported model families: embed_tokens, embed_tokens_per_layer, embeddings,
// tok_embeddings.
bool IsEmbedding(absl::string_view name);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_EMBEDDING_NAMES_H_
