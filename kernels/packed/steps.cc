#include "kernels/packed/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace moonring::kernels {
namespace {

FourBitSteps WithBounds(const std::array<float, 16>& steps) {
  FourBitSteps made{steps, {}, {}};
  std::iota(made.order.begin(), made.order.end(), uint8_t{0});
  std::stable_sort(made.order.begin(), made.order.end(),
                   [&](uint8_t a, uint8_t b) { return steps[a] < steps[b]; });
  for (int i = 0; i < 15; ++i)
    made.bounds[i] = (steps[made.order[i]] + steps[made.order[i + 1]]) / 2;
  return made;
}

}  // namespace

const FourBitSteps& Nf4Steps() {
  static const FourBitSteps made = WithBounds(
      {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
       -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
       0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
       0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f});
  return made;
}

const FourBitSteps& Fp4Steps() {
  static const FourBitSteps made =
      WithBounds({0.0f, 1 / 192.0f, 2 / 3.0f, 1.0f, 1 / 3.0f, 0.5f, 1 / 6.0f, 0.25f, 0.0f,
                  -1 / 192.0f, -2 / 3.0f, -1.0f, -1 / 3.0f, -0.5f, -1 / 6.0f, -0.25f});
  return made;
}

const std::array<float, 256>& DynamicSteps() {
  static const std::array<float, 256> made = [] {
    std::vector<float> steps = {0.0f, 1.0f};
    for (int e = 0; e < 7; ++e) {
      // The same points as LibTorch's linspace on a CPU with AVX2: multiples of an fp32 step,
      // counted from the nearer end and rounded once.
      const int parts = 1 << e, points = parts + 1;
      const float step = (1.0f - 0.1f) / static_cast<float>(parts);
      const auto point = [&](int i) {
        return i < points / 2 ? std::fma(step, static_cast<float>(i), 0.1f)
                              : std::fma(-step, static_cast<float>(parts - i), 1.0f);
      };
      const float unit = static_cast<float>(std::pow(10.0, e - 6));
      for (int i = 0; i < parts; ++i) {
        const float middle = unit * ((point(i) + point(i + 1)) / 2);
        steps.insert(steps.end(), {middle, -middle});
      }
    }
    std::sort(steps.begin(), steps.end());
    std::array<float, 256> sorted;
    std::copy(steps.begin(), steps.end(), sorted.begin());
    return sorted;
  }();
  return made;
}

DynamicPlaces::DynamicPlaces() {
  const std::array<float, 256>& steps = DynamicSteps();
  int code = 0;
  for (int place = 0; place < 65536; ++place) {
    const float at = static_cast<float>(2 * place) / 65535.0f - 1.0f;
    while (code < 255 && at > (steps[code] + steps[code + 1]) * 0.5f) ++code;
    codes_[place] = static_cast<uint8_t>(code);
  }
}

uint8_t DynamicPlaces::CodeOf(float fraction) const {
  if (std::isnan(fraction)) return codes_[0];
  // Rounded to the nearest table index, with one rounding.
  return codes_[static_cast<int>(std::fma(65535.0f, (fraction + 1.0f) * 0.5f, 0.5f))];
}

}  // namespace moonring::kernels
