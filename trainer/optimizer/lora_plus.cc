#include "trainer/optimizer/lora_plus.h"

#include "absl/strings/match.h"

namespace moonring::trainer {

double LoraPlusRate(const base::Parameter& parameter, double ratio) {
  return absl::StrContains(parameter.name(), ".lora_B.") || parameter.shape().size() == 1 ? ratio
                                                                                          : 1.0;
}

}  // namespace moonring::trainer
