#include "lua/serve/loss_checks.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace moonring::serve {

absl::Status CheckDatumCount(size_t count) {
  if (count <= kMostDatums) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: expected at most ", kMostDatums, " datums in a request"));
}

absl::Status CheckTokens(const LossDatum& datum) {
  if (!datum.tokens_N.defined() || datum.tokens_N.numel() == 0)
    return absl::InvalidArgumentError("model_input: has no tokens");
  const int64_t* token = datum.tokens_N.data_ptr<int64_t>();
  for (int64_t i = 0; i < datum.tokens_N.numel(); ++i) {
    if (token[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model_input: token ", i, " is ", token[i], "; expected an id from 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status AddConfig(std::string name, std::variant<double, std::string> value,
                       LossRequest& request) {
  if (const double* number = std::get_if<double>(&value);
      number != nullptr && !std::isfinite(*number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss_fn_config.", name, ": expected a finite number, got ", *number));
  }
  request.config[std::move(name)] = std::move(value);
  if (request.config.size() <= kMostConfigEntries) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("loss_fn_config: expected at most ", kMostConfigEntries, " names"));
}

}  // namespace moonring::serve
