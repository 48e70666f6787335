#include "model/digest.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <c10/util/hash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace moonring::model {
namespace {

constexpr size_t kPart = size_t{16} << 20;

}  // namespace

std::string Digest(const base::Parameters& parameters, absl::string_view besides) {
  at::NoGradGuard no_grad;
  std::string lines;
  for (const auto& parameter : parameters) {
    const at::Tensor weight = parameter->LeaseWhole(parameter->dtype()).to(at::kCPU).contiguous();
    absl::StrAppend(&lines, parameter->name(), " ", c10::toString(weight.scalar_type()), " [",
                    absl::StrJoin(weight.sizes().vec(), ", "), "]");
    const char* bytes = static_cast<const char*>(weight.const_data_ptr());
    for (size_t begin = 0; begin < weight.nbytes(); begin += kPart) {
      absl::StrAppend(
          &lines, " ",
          c10::sha1(std::string(bytes + begin, std::min(kPart, weight.nbytes() - begin))).str());
    }
    lines += '\n';
  }
  absl::StrAppend(&lines, besides);
  return c10::sha1(lines).str();
}

}  // namespace moonring::model
