#ifndef MOONRING_MODEL_CONFIG_ROTARY_RULE_H_
#define MOONRING_MODEL_CONFIG_ROTARY_RULE_H_

// The parameters of a rotary embedding; rotary.h has the formulas that use them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::model {

enum class RopeKind { kDefault, kLinear, kDynamic, kYarn, kLlama3, kLongRope, kProportional };

struct RotaryRule {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  int64_t dim = 0;            // features at the beginning of a head that are rotated; even
  bool interleaved = false;   // pairs are neighbours (2f, 2f + 1), not halves (f, f + dim / 2)
  int64_t turning_pairs = 0;  // proportional: only the first pairs are rotated
  double factor = 1.0;
  double attention_factor = 1.0;
  double original_length = 0.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  // Yarn: the ramp's bounds are rounded to whole pairs.
  bool truncate = true;
  std::vector<double> short_factor, long_factor;  // longrope: one per pair
  // Queries at position p are multiplied by 1 + query_growth ln(1 + floor(p /
  // query_growth_length)).
  double query_growth = 0.0, query_growth_length = 1.0;

  bool depends_on_length() const {
    return kind == RopeKind::kDynamic || kind == RopeKind::kLongRope;
  }
};

absl::string_view RopeName(RopeKind kind);  // "default", "linear", ...

// "yarn, factor 4 over 32768 positions, cosines times 1.1386", for a log.
std::string DescribeRope(const RotaryRule& rule);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ROTARY_RULE_H_
