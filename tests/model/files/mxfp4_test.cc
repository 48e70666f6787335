// MXFP4 (four-bit) weights: values computed from the definition, and files with inconsistent
// tensors. (families_test compares gpt_oss_mxfp4 with Transformers.)

#include "model/files/mxfp4.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/files/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

class Held : public WeightStore {
 public:
  explicit Held(std::map<std::string, at::Tensor> tensors) : tensors_(std::move(tensors)) {
    for (const auto& [name, tensor] : tensors_)
      weights_[name] = {"f", tensor.sizes().vec(),
                        std::string(SafetensorsDtype(tensor.scalar_type())), ""};
  }
  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override {
    return tensors_.at(name);
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, StoredWeight> weights_;
};

absl::StatusOr<std::unique_ptr<WeightStore>> Of(std::map<std::string, at::Tensor> tensors) {
  return ReadMxfp4(std::make_unique<Held>(std::move(tensors)));
}

at::Tensor RandomBytes(at::IntArrayRef sizes) { return at::randint(256, sizes, at::kByte); }

// Returns the value of a code with one sign bit, two exponent bits with bias 1, and one mantissa
// bit.
double E2m1(int bits) {
  const int exponent = (bits >> 1) & 3, mantissa = bits & 1;
  const double size =
      exponent == 0 ? mantissa * 0.5 : (1 + mantissa * 0.5) * std::ldexp(1.0, exponent - 1);
  return bits & 8 ? -size : size;
}

TEST(Mxfp4Test, IsItsDefinition) {
  at::manual_seed(2);
  const at::Tensor blocks = RandomBytes({2, 5, 3, 16}),
                   scales = at::randint(100, 150, {2, 5, 3}, at::kByte), other = at::ones({4});
  ASSERT_OK_AND_ASSIGN(const auto store,
                       Of({{"w_blocks", blocks}, {"w_scales", scales}, {"v", other}}));
  ASSERT_EQ(store->weights().size(), 2u);
  EXPECT_EQ(store->weights().at("w").dtype, "MXFP4");
  EXPECT_EQ(store->weights().at("w").shape, (std::vector<int64_t>{2, 96, 5}));
  ASSERT_OK_AND_ASSIGN(const at::Tensor w, store->Read("w"));
  ASSERT_EQ(w.sizes(), at::IntArrayRef({2, 96, 5}));
  EXPECT_EQ(w.scalar_type(), at::kBFloat16);
  for (int64_t e = 0; e < 2; ++e) {
    for (int64_t c = 0; c < 96; ++c) {
      for (int64_t r = 0; r < 5; ++r) {
        const int byte = blocks[e][r][c / 32][c % 32 / 2].item<int>();
        const double wanted = E2m1(c % 2 == 0 ? byte & 15 : byte >> 4) *
                              std::ldexp(1.0, scales[e][r][c / 32].item<int>() - 127);
        ASSERT_EQ(w[e][c][r].item<double>(), wanted) << e << " " << c << " " << r;
      }
    }
  }
  EXPECT_TRUE(at::equal(*store->Read("v"), other));
}

TEST(Mxfp4Test, RefusesWhatDoesNotFit) {
  const auto message = [](std::map<std::string, at::Tensor> tensors) {
    return std::string(Of(std::move(tensors)).status().message());
  };
  EXPECT_EQ(message({{"w_blocks", RandomBytes({2, 5, 3, 16})}}),
            "f: w_blocks: expected w_scales too");
  EXPECT_EQ(message({{"w_scales", RandomBytes({2, 5, 3})}}), "f: w_scales: expected w_blocks too");
  EXPECT_EQ(
      message({{"w_blocks", RandomBytes({2, 5, 3, 8})}, {"w_scales", RandomBytes({2, 5, 3})}}),
      "f: w_blocks: expected U8 [E, R, G, 16], found U8 [2, 5, 3, 8]");
  EXPECT_EQ(
      message({{"w_blocks", RandomBytes({2, 5, 3, 16})}, {"w_scales", RandomBytes({2, 5, 4})}}),
      "f: w_scales: expected U8 [2, 5, 3], found U8 [2, 5, 4]");
}

}  // namespace
}  // namespace moonring::model
