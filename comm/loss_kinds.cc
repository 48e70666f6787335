#include "comm/loss_kinds.h"

#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/container/flat_hash_set.h"
#include "base/autograd/custom_function.h"

namespace moonring::comm {
namespace {

using torch::autograd::Node;

struct Visit {
  const Node* node;
  Kind kind;           // that the node's output must have
  const Node* user;    // the node that uses this output; null for the loss
  const Node* inside;  // the last collective on the path
};

}  // namespace

std::optional<KindBreach> FindKindBreach(const at::Tensor& loss, Kind kind) {
  const auto name = [](const Node* node) { return node == nullptr ? std::string() : node->name(); };
  std::vector<Visit> queue;
  absl::flat_hash_set<std::pair<const Node*, Kind>> seen;
  const auto push = [&](const Node* node, Kind kind, const Node* user, const Node* inside) {
    if (node != nullptr && seen.emplace(node, kind).second)
      queue.push_back({node, kind, user, inside});
  };
  push(loss.grad_fn().get(), kind, nullptr, nullptr);
  for (size_t next = 0; next < queue.size(); ++next) {
    auto [node, wanted, user, inside] = queue[next];
    if (const KindChange* const change = KindChangeOf(*node)) {
      if (change->gives != wanted) {
        const bool is_sum = change->gives == Kind::kReplicated;
        return KindBreach{is_sum ? KindBreach::What::kSum : KindBreach::What::kShare, name(node),
                          name(inside)};
      }
      wanted = change->takes;
      inside = node;
    } else if (wanted == Kind::kReplicated && base::IsAnchor(*node)) {
      return KindBreach{KindBreach::What::kWeights, name(user), name(inside)};
    }
    for (const torch::autograd::Edge& edge : node->next_edges())
      push(edge.function.get(), wanted, node, inside);
  }
  return std::nullopt;
}

}  // namespace moonring::comm
