#ifndef MOONRING_MODEL_CONFIG_ROTARY_RULE_H_
#define MOONRING_MODEL_CONFIG_ROTARY_RULE_H_

// How far a token's position turns its pairs of features: the numbers that rotary.h's formulas
// take.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::model {

enum class RopeKind { kDefault, kLinear, kDynamic, kYarn, kLlama3, kLongRope, kProportional };

struct RotaryRule {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  int64_t dim = 0;            // the first features of a head, which turn; even
  bool interleaved = false;   // pairs are neighbours (2f, 2f + 1), not halves (f, f + dim / 2)
  int64_t turning_pairs = 0;  // proportional: the first pairs, which turn; the rest stand still
  double factor = 1.0;
  double attention_factor = 1.0;
  double original_length = 0.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  bool truncate = true;                                  // yarn: whole pairs bound the ramp
  std::vector<double> short_factor, long_factor;         // longrope: one a pair
  // Queries at p are multiplied by 1 + growth ln(1 + floor(p / growth_length)); 0: they are not.
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
