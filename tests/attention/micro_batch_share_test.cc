// The ranks' shares of a micro-batch: joined they are the stream, each token with its own position,
// target and document length, under every strategy and also if some ranks get no tokens.
#include "attention/strategy/micro_batch_share.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randn.h>

#include "attention/kernels/mask.h"
#include "attention/strategy/strategies.h"
#include "comm/mesh.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

// A stream whose ids are 0 ... T - 1 in order, so an id is the token's index in the stream.
comm::Sequence Stream(std::vector<int64_t> lengths) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  const at::Tensor ids_T = at::arange(tokens, at::kLong);
  const at::Tensor positions_T = comm::PositionsInDocuments(lengths);
  const at::Tensor targets_T = comm::ShiftLabels(ids_T, lengths);
  return {std::move(lengths), ids_T, positions_T, targets_T};
}

TEST(MicroBatchShareTest, SharesAreTheStreamAndTheirRowsStayTogether) {
  for (const char* name : {"ulysses", "ring", "zigzag-ring", "double-ring", "all-gather", "usp"}) {
    for (const auto& lengths : std::vector<std::vector<int64_t>>{{3000, 5, 700}, {1}, {}}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << lengths.size() << " documents");
      const comm::Sequence stream = Stream(lengths);
      const at::Tensor lengths_T = comm::LengthsOfTokens(stream);
      RunRanks(4, [&](std::shared_ptr<comm::World> world) {
        ASSERT_OK_AND_ASSIGN(std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 4));
        ASSERT_OK_AND_ASSIGN(auto attention, CreateAttention({{.name = name}, mesh->sp_group()}));
        ASSERT_OK_AND_ASSIGN(MicroBatchShare share, CutMicroBatch(*attention, *mesh, stream));
        // The ids are indices in the stream: all other values of the share must be those at these
        // indices.
        const auto row = [&](const at::Tensor& stream_T) {
          return at::index_select(stream_T, 0, share.ids_T);
        };
        EXPECT_TRUE(at::equal(share.positions_T, row(stream.positions_T)));
        EXPECT_TRUE(at::equal(share.targets_T, row(stream.targets_T)));
        EXPECT_TRUE(at::equal(share.lengths_T, row(lengths_T)));
        EXPECT_NE(share.plan, nullptr);
        std::vector<int64_t> sizes;
        for (int rank = 0; rank < 4; ++rank) sizes.push_back(share.layout->local_tokens(rank));
        ASSERT_OK_AND_ASSIGN(std::vector<at::Tensor> all, mesh->sp().AllGather(share.ids_T, sizes));
        EXPECT_TRUE(at::equal(share.layout->Join(all), stream.ids_T));
        ASSERT_OK_AND_ASSIGN(auto layout, LayoutOf(*attention, *mesh, stream));
        EXPECT_EQ(layout->spans(mesh->sp_rank()), share.layout->spans(mesh->sp_rank()));
      });
    }
  }
}

// A long prompt that a rank's documents attend to counts as work of that rank, as much as keys of
// its own documents.
TEST(MicroBatchShareTest, WorkUnderAMaskIsBalanced) {
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 2));
    ASSERT_OK_AND_ASSIGN(auto attention,
                         CreateAttention({{.name = "zigzag-ring"}, mesh->sp_group()}));
    const comm::Sequence stream = Stream({4096, 100, 100, 100, 100});
    ASSERT_OK_AND_ASSIGN(const auto mask,
                         Mask::Create(stream.lengths, {{}, {0, 0, 4096}, {0, 0, 4096}, {}, {}}));
    ASSERT_OK_AND_ASSIGN(auto layout, LayoutOf(*attention, *mesh, stream, {mask}));
    std::vector<double> area(2, 0.0);
    for (int place = 0; place < 2; ++place) {
      for (const comm::Span& span : layout->context_spans(place))
        area[place] += mask->Area(span.document, span.begin, span.end);
    }
    EXPECT_NEAR(area[0] / area[1], 1.0, 0.03);
    ASSERT_OK_AND_ASSIGN(const auto other, Mask::Create({7}, {{3}}));
    EXPECT_THAT(CutMicroBatch(*attention, *mesh, stream, {mask, other}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mask 1")));
  });
}

// Parents (documents that another document continues) give the same layout and the same sums as the
// equivalent mask.
TEST(MicroBatchShareTest, ParentsMakeTheMask) {
  comm::Sequence stream = Stream({4096, 100, 100, 100, 100});
  stream.parents = {{}, {0, 4096}, {0, 4096}, {}, {3, 60}};
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 2));
    ASSERT_OK_AND_ASSIGN(auto attention,
                         CreateAttention({{.name = "zigzag-ring"}, mesh->sp_group()}));
    ASSERT_OK_AND_ASSIGN(
        const auto mask,
        Mask::Create(stream.lengths, {{}, {0, 0, 4096}, {0, 0, 4096}, {}, {0, 3, 60}}));
    comm::Sequence without = stream;
    without.parents.clear();
    ASSERT_OK_AND_ASSIGN(auto share, CutMicroBatch(*attention, *mesh, stream));
    ASSERT_OK_AND_ASSIGN(auto masked, CutMicroBatch(*attention, *mesh, without, {mask}));
    ASSERT_OK_AND_ASSIGN(auto layout, LayoutOf(*attention, *mesh, stream));
    EXPECT_EQ(share.layout->spans(mesh->sp_rank()), masked.layout->spans(mesh->sp_rank()));
    EXPECT_EQ(share.layout->spans(mesh->sp_rank()), layout->spans(mesh->sp_rank()));
    const at::Tensor rows = at::randn({share.ids_T.size(0), 2, 8}, at::kDouble);
    const auto out = [&](MicroBatchShare& of) {
      return of.plan->Forward(rows, rows, rows, {.scale = 1.0}, nullptr);
    };
    EXPECT_TRUE(at::equal(out(share), out(masked)));
    const auto refused = [&](const LayerMasks& masks, bool shifted, const char* words) {
      EXPECT_THAT(CutMicroBatch(*attention, *mesh, stream, masks, shifted).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
      EXPECT_THAT(LayoutOf(*attention, *mesh, stream, masks, shifted).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
    };
    refused({mask}, false, "shared prefixes take no masks");
    refused({}, true, "shifted attention takes no shared prefixes");
  });
}

TEST(MicroBatchShareTest, AStrategyOfAnotherNumberOfRanksIsRefused) {
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 1));
    ASSERT_OK_AND_ASSIGN(auto attention,
                         CreateAttention({{.name = "ring"}, world->communicator()}));
    EXPECT_THAT(CutMicroBatch(*attention, *mesh, Stream({5})).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sp")));
    // The barrier keeps every rank alive until all others have connected.
    ASSERT_OK(mesh->world().Barrier());
  });
}

}  // namespace
}  // namespace moonring::attention
