#include "tests/model/model_on_ranks.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "model/config/weights.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {

int64_t Documents::targets() const {
  int64_t count = 0;
  for (const int64_t length : lengths) count += std::max<int64_t>(length - 1, 0);
  return count;
}

Documents Documents::Alone(size_t document) const {
  const int64_t begin = std::accumulate(lengths.begin(), lengths.begin() + document, int64_t{0});
  return {{lengths[document]}, ids_T.narrow(0, begin, lengths[document])};
}

Documents RandomDocuments(std::vector<int64_t> lengths, int64_t vocabulary) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return {std::move(lengths), at::randint(vocabulary, {tokens}, at::kLong)};
}

base::Parameters RandomWeights(const ModelConfig& config) {
  at::manual_seed(5);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    at::Tensor value = at::randn(weight.shape, at::kDouble);
    if (weight.shape.size() > 1) value.div_(std::sqrt(static_cast<double>(weight.shape[1])));
    if (weight.name.find("norm") != std::string::npos) value.mul_(0.1).add_(1);
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, value));
  }
  return parameters;
}

MakeModel FromWeights(const ModelConfig& config, const base::Parameters& weights,
                      const TransformerOptions& options) {
  return [=] {
    base::Parameters own;
    for (const auto& weight : weights) {
      own.push_back(std::make_shared<base::Parameter>(
          weight->name(),
          weight->weight().detach().to(options.weight_dtype, false, /*copy=*/true)));
    }
    return Transformer::Create(config, own, options).value();
  };
}

Answer RunOn(testing::ConnectedRanks& ranks, const std::string& strategy, const MakeModel& make,
             const Documents& documents, int64_t divisor) {
  Answer answer;
  std::vector<at::Tensor> hidden(ranks.size());
  std::shared_ptr<const comm::Layout> layout;
  const at::Tensor positions = comm::PositionsInDocuments(documents.lengths),
                   targets = comm::ShiftLabels(documents.ids_T, documents.lengths);
  ranks.Run([&](std::shared_ptr<comm::World> world) {
    const int rank = world->rank();
    const std::unique_ptr<Transformer> model = make();
    ASSERT_OK_AND_ASSIGN(const auto attention,
                         attention::CreateAttention({{.name = strategy}, world->communicator()}));
    ASSERT_OK_AND_ASSIGN(
        const std::shared_ptr<const comm::Layout> cut,
        comm::Layout::Create(documents.lengths, attention->Divide(documents.lengths),
                             attention::CausalTileArea));
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<attention::PlannedAttention> plan,
                         attention->Plan(cut));
    const at::Tensor mine =
        model->Forward(cut->Cut(documents.ids_T, rank), cut->Cut(positions, rank), plan).hidden_TD;
    at::Tensor head = model->head()->Lease(mine.scalar_type()).detach().requires_grad_();
    const at::Tensor loss = at::cross_entropy_loss(at::linear(mine, head), cut->Cut(targets, rank),
                                                   {}, at::Reduction::Sum, comm::kIgnore);
    (loss / divisor).backward();
    model->head()->AddGradient(head.grad());
    hidden[rank] = mine.detach();
    at::Tensor sum = loss.detach().to(at::kDouble);
    ASSERT_OK(world->communicator()->AllReduceSum(sum));
    for (const auto& parameter : model->parameters()) {
      at::Tensor gradient = parameter->gradient();
      ASSERT_OK(world->communicator()->AllReduceSum(gradient));
      if (rank == 0) answer.gradients[parameter->name()] = gradient;
    }
    if (rank == 0) answer.loss = sum.item<double>(), layout = cut;
  });
  if (layout != nullptr) answer.hidden_TD = layout->Join(hidden);
  return answer;
}

}  // namespace moonring::model
