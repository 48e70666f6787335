// Losses that use a sharded value as a replicated one, or the other way round, are found on any
// number of ranks, and right ones are not.
#include "comm/loss_kinds.h"

#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "base/autograd/parameter.h"
#include "base/autograd/used_parameter.h"
#include "comm/autograd_collectives.h"
#include "tests/testing/run_ranks.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::RunRanks;

// "what node inside", or "" without a breach.
std::string BreachOf(const at::Tensor& loss, Kind kind) {
  const auto breach = FindKindBreach(loss, kind);
  if (!breach.has_value()) return "";
  const char* const what = breach->what == KindBreach::What::kSum     ? "sum"
                           : breach->what == KindBreach::What::kShare ? "share"
                                                                      : "weights";
  return what + (" " + breach->node) + (breach->inside.empty() ? "" : " in " + breach->inside);
}

TEST(LossKindsTest, OnAnyNumberOfRanks) {
  static constexpr char kSum[] = "AllReduceSumIdentityBackward";
  for (const int size : {1, 2}) {
    RunRanks(size, [size](std::shared_ptr<World> world) {
      const auto group = world->communicator();
      const auto weight = std::make_shared<base::Parameter>("w", at::ones({2}, at::kDouble));
      const auto use = [&] { return base::Use(weight, at::kDouble); };
      const at::Tensor tokens = use() * at::ones({3, 2}, at::kDouble);  // of this rank
      const at::Tensor sum = AllReduceSumIdentityBackward(tokens.exp().sum(0), group);
      const at::Tensor back = Spread(sum.sigmoid(), group);
      const at::Tensor leaf = at::ones({2}, at::kDouble).requires_grad_();
      const auto again = [&](const at::Tensor& t) {
        return AllReduceSumIdentityBackward(t, group);
      };

      EXPECT_EQ(BreachOf(tokens.sum(), Kind::kSharded), "");
      EXPECT_EQ(BreachOf((tokens * back).sum() + (leaf * back).sum(), Kind::kSharded), "");
      EXPECT_EQ(BreachOf(sum.sum(), Kind::kSharded), std::string("sum ") + kSum);
      EXPECT_EQ(BreachOf((tokens * sum).sum() + back.sum(), Kind::kSharded),
                std::string("sum ") + kSum);
      EXPECT_EQ(BreachOf((tokens * sum.detach()).sum(), Kind::kSharded), "");
      EXPECT_EQ(BreachOf(Spread(tokens.sum(), group), Kind::kSharded), "weights UseOfw in Spread");
      EXPECT_EQ(BreachOf(Spread(back.sum(), group), Kind::kSharded), "share Spread in Spread");
      EXPECT_EQ(BreachOf(again(sum).sum(), Kind::kReplicated),
                std::string("sum ") + kSum + " in " + kSum);

      EXPECT_EQ(BreachOf((sum * leaf).sigmoid().sum(), Kind::kReplicated), "");
      EXPECT_EQ(BreachOf(again((tokens * back).sum()), Kind::kReplicated), "");
      EXPECT_EQ(BreachOf(tokens.sum(), Kind::kReplicated), "weights UseOfw");
      EXPECT_EQ(BreachOf((sum * use()).sum(), Kind::kReplicated), "weights UseOfw");
      EXPECT_EQ(BreachOf(sum.sum() + back.sum(), Kind::kReplicated), "share Spread");
      const at::Tensor rows = GatherRows(tokens, std::vector<int64_t>(size, 3), group);
      EXPECT_EQ(BreachOf(rows.sum(), Kind::kReplicated),
                size == 1 ? "weights UseOfw" : "share GatherRows");
      EXPECT_EQ(BreachOf(rows.sum(), Kind::kSharded), "");

      EXPECT_EQ(BreachOf(leaf.sum(), Kind::kReplicated) + BreachOf(leaf, Kind::kSharded), "");
      EXPECT_EQ(BreachOf(at::ones({}), Kind::kReplicated), "");
    });
  }
}

}  // namespace
}  // namespace moonring::comm
