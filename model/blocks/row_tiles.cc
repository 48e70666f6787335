#include "model/blocks/row_tiles.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/layers.h"

namespace moonring::model {
namespace {

using base::Tensors;

constexpr int64_t kRound = 64;  // the rows of a tile are a multiple of this

struct TiledCall {
  RowFunction function;
  RowTiles tiles;
  size_t inputs = 0;  // number of inputs with rows; the weights follow them

  // Calls fn(first row, number of rows) for each tile.
  template <class F>
  void ForEachTile(int64_t rows, const F& fn) const {
    const int64_t step = RowsOfTile(tiles, rows);
    int64_t begin = 0;
    do {
      // A few remaining rows would use another code path of the matrix products, so they are added
      // to the last full tile.
      const int64_t count = rows - begin < step + kRound ? rows - begin : step;
      fn(begin, count);
      begin += count;
    } while (begin < rows);
  }

  bool OneTile(int64_t rows) const { return rows < RowsOfTile(tiles, rows) + kRound; }

  Tensors Values(const Tensors& all) const {
    at::NoGradGuard no_grad;
    const absl::Span<const at::Tensor> weights = absl::MakeConstSpan(all).subspan(inputs);
    const auto run = [&](absl::Span<const at::Tensor> rows, int64_t begin) {
      Tensors made = function(weights, rows, begin);
      TORCH_CHECK(made.size() == tiles.shapes.size(), "row tiles: the function gave ", made.size(),
                  " results, expected ", tiles.shapes.size());
      return made;
    };
    // If there is only one tile, its results are returned without a copy.
    if (OneTile(all[0].size(0))) return run(absl::MakeConstSpan(all).first(inputs), 0);
    Tensors results;
    for (const at::Tensor& like : tiles.shapes)
      results.push_back(results.empty() ? at::empty(like.sizes(), like.options())
                                        : at::zeros(like.sizes(), like.options()));
    ForEachTile(all[0].size(0), [&](int64_t begin, int64_t count) {
      Tensors rows;
      for (size_t i = 0; i < inputs; ++i) rows.push_back(all[i].narrow(0, begin, count));
      const Tensors made = run(rows, begin);
      results[0].narrow(0, begin, count).copy_(made[0]);
      for (size_t i = 1; i < made.size(); ++i) results[i].add_(made[i]);
    });
    return results;
  }

  Tensors StandIns() const {
    Tensors results;
    for (const at::Tensor& like : tiles.shapes)
      results.push_back(StandIn(like.sizes(), like.options()));
    return results;
  }
};

// The backward, tile by tile. It has the tensors to differentiate, and the tensors into which their
// gradients are written.
class TiledBackward {
 public:
  TiledBackward(const TiledCall& call, Tensors all, const std::vector<bool>& wanted,
                Tensors gradients)
      : call_(call),
        all_(std::move(all)),
        wanted_(wanted),
        gradients_(std::move(gradients)),
        results_(all_.size()) {}

  Tensors Run() {
    // If there is only one tile, its gradients are returned without a copy.
    for (size_t i = 0; i < call_.inputs && !call_.OneTile(all_[0].size(0)); ++i) {
      if (wanted_[i])
        results_[i] = i == 0 && MayReuse() ? gradients_[0]
                                           : at::empty_like(all_[i], at::MemoryFormat::Contiguous);
    }
    call_.ForEachTile(all_[0].size(0), [&](int64_t begin, int64_t count) { Tile(begin, count); });
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i < call_.inputs && wanted_[i] && !results_[i].defined())
        results_[i] = at::zeros_like(all_[i], at::MemoryFormat::Contiguous);
      if (results_[i].defined()) results_[i] = results_[i].to(all_[i].scalar_type());
    }
    return std::move(results_);
  }

 private:
  // Whether the gradient of x may be written into the memory of the gradient of y. This is safe
  // because the backward of a tile reads its rows of the gradient of y before it writes its rows of
  // the gradient of x.
  bool MayReuse() const {
    const at::Tensor &gradient = gradients_[0], &input = all_[0];
    return call_.tiles.gradient_is_free && gradient.defined() && gradient.is_contiguous() &&
           gradient.sizes() == input.sizes() && gradient.scalar_type() == input.scalar_type();
  }

  void Tile(int64_t begin, int64_t count) {
    Tensors inputs, leaves;
    std::vector<size_t> places;
    for (size_t i = 0; i < all_.size(); ++i) {
      inputs.push_back((i < call_.inputs ? all_[i].narrow(0, begin, count) : all_[i]).detach());
      if (!wanted_[i]) continue;
      leaves.push_back(inputs.back().requires_grad_());
      places.push_back(i);
    }
    Tensors roots, root_gradients;
    {
      at::AutoGradMode enable(true);
      const absl::Span<const at::Tensor> span = absl::MakeConstSpan(inputs);
      const Tensors made =
          call_.function(span.subspan(call_.inputs), span.first(call_.inputs), begin);
      for (size_t i = 0; i < made.size(); ++i) {
        if (!made[i].requires_grad() || !gradients_[i].defined()) continue;
        roots.push_back(made[i]);
        root_gradients.push_back(i == 0 ? gradients_[i].narrow(0, begin, count) : gradients_[i]);
      }
    }
    Tensors parts(leaves.size());
    if (!roots.empty()) parts = base::Differentiate(roots, leaves, root_gradients);
    for (size_t i = 0; i < places.size(); ++i) Put(places[i], std::move(parts[i]), begin, count);
  }

  void Put(size_t place, at::Tensor part, int64_t begin, int64_t count) {
    at::Tensor& result = results_[place];
    if (place < call_.inputs && !result.defined()) {
      result = std::move(part);
    } else if (place < call_.inputs) {
      at::Tensor rows = result.narrow(0, begin, count);
      part.defined() ? rows.copy_(part) : rows.zero_();
    } else if (part.defined() && !result.defined()) {
      const bool last = begin + count == all_[0].size(0);
      result = last ? std::move(part) : part.to(WideDtype(part.scalar_type()));
    } else if (part.defined()) {
      result.add_(part);
    }
  }

  const TiledCall& call_;
  const Tensors all_;
  const std::vector<bool>& wanted_;
  const Tensors gradients_;
  Tensors results_;
};

}  // namespace

int64_t LeastTileRows(const c10::Device& device) { return device.is_cpu() ? 512 : 8192; }

int64_t RowsOfTile(const RowTiles& tiles, int64_t rows) {
  const int64_t most = std::max(
      {tiles.least_rows, tiles.tile_bytes / std::max<int64_t>(1, tiles.row_bytes), kRound});
  const int64_t count = std::max<int64_t>(1, (rows + most - 1) / most);
  const int64_t even = (rows + count - 1) / count;
  // The number of rows per tile is rounded up to a multiple of kRound; only the last tile can have
  // fewer rows.
  return std::max<int64_t>(1, count == 1 ? rows : (even + kRound - 1) / kRound * kRound);
}

at::Tensor StandIn(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty_strided(sizes, std::vector<int64_t>(sizes.size(), 0), options);
}

std::vector<at::Tensor> RunInTiles(const RowFunction& function,
                                   const std::vector<at::Tensor>& weights,
                                   const std::vector<at::Tensor>& rows, const RowTiles& tiles) {
  TORCH_CHECK(!rows.empty() && !tiles.shapes.empty(), "row tiles: ", rows.size(),
              " inputs with rows and ", tiles.shapes.size(), " results, expected one or more");
  for (const at::Tensor& each : rows)
    TORCH_CHECK(each.size(0) == rows[0].size(0), "row tiles: inputs of ", each.size(0), " and of ",
                rows[0].size(0), " rows");
  const auto call = std::make_shared<TiledCall>();
  call->function = function;
  call->tiles = tiles;
  call->inputs = rows.size();
  Tensors all = rows;
  all.insert(all.end(), weights.begin(), weights.end());
  const bool graph = at::GradMode::is_enabled() &&
                     std::any_of(all.begin(), all.end(),
                                 [](const at::Tensor& each) { return each.requires_grad(); });
  if (!graph) return call->Values(all);
  const auto forward = [&](Tensors* saved) -> Tensors {
    *saved = all;
    return call->tiles.values ? call->Values(all) : call->StandIns();
  };
  const auto backward = [call](base::BackwardCall& run) -> Tensors {
    return TiledBackward(*call, std::move(run.saved), run.wanted, std::move(run.gradients)).Run();
  };
  return base::Apply(
      {.name = "row tiles", .forward = forward, .backward = backward, .undefined_gradients = true},
      all);
}

}  // namespace moonring::model
