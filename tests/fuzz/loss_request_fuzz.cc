// Fuzzes the request of forward_backward in its two forms.
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "lua/serve/loss_reader.h"
#include "lua/serve/name_text.h"

namespace {

void Read(absl::string_view body, absl::string_view type) {
  const auto request = moonring::serve::ReadLossRequest(body, type);
  if (!request.ok()) {
    // A reason is given, and it is text whatever the request has.
    if (request.status().message().empty()) __builtin_trap();
    return;
  }
  if (request->seq_id < 1 || request->data.empty() || request->model_id.empty()) __builtin_trap();
  if (!moonring::serve::IsUtf8(request->model_id)) __builtin_trap();
  for (const auto& datum : request->data) {
    if (datum.tokens_N.numel() == 0) __builtin_trap();
    for (const auto& [name, tensor] : datum.inputs) {
      // Values are readable and finite.
      const at::Tensor sum = tensor.to(at::kDouble).abs();
      if (tensor.numel() > 0 && !(sum.max().item<double>() < 1e39)) __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view body(reinterpret_cast<const char*>(data), size);
  Read(body, "application/x-protobuf");
  Read(body, "application/json");
  return 0;
}
