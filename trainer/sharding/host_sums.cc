#include "trainer/sharding/host_sums.h"

#include <algorithm>
#include <exception>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include "base/memory/memory_account.h"

namespace moonring::trainer {

HostSums::HostSums(c10::Device device, int64_t leaving_bytes, int64_t piece)
    : leaving_bytes_(leaving_bytes), piece_(piece), in_(device), out_(device) {}

HostSums::~HostSums() {
  // The buffers were allocated on `in_`, so `in_` must wait for `out_` before they are freed.
  try {
    base::WaitForStream(in_.stream(), out_.stream());
  } catch (const std::exception&) {  // a failed device executes nothing any more
  }
}

void HostSums::Add(HostSum& sum, int64_t begin, const at::Tensor& gradient) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kGradients);
  const at::Tensor flat = gradient.detach().view({-1});
  const at::Tensor part = sum.numbers.narrow(0, begin, flat.numel());
  const c10::Stream current = in_.Current();
  const bool straight = !sum.any && part.scalar_type() == flat.scalar_type();
  const c10::Stream& reader = straight ? out_.stream() : in_.stream();
  base::WaitForStream(reader, current);
  if (straight) {
    const c10::StreamGuard on(out_.stream());
    part.copy_(flat, /*non_blocking=*/true);
  } else {
    if (sum.any && sum.written.has_value()) sum.written->block(in_.stream());
    for (int64_t at = 0; at < flat.numel(); at += piece_) {
      const int64_t count = std::min(piece_, flat.numel() - at);
      AddPiece(part.narrow(0, at, count), flat.narrow(0, at, count), sum.any);
    }
  }
  leaving_.Add(flat, current, reader);
  while (leaving_.size() > 0 && leaving_.bytes() > leaving_bytes_) leaving_.LetGo();
  if (!sum.written.has_value()) sum.written.emplace(current.device_type());
  sum.written->record(out_.stream());
  if (begin + flat.numel() == sum.numbers.numel()) sum.any = true;
}

void HostSums::AddPiece(const at::Tensor& sum, const at::Tensor& gradient, bool any) {
  Buffer& buffer = buffers_[next_++ % kBuffers];
  {
    const c10::StreamGuard on(in_.stream());
    if (buffer.free.has_value()) buffer.free->block(in_.stream());
    if (!buffer.numbers.defined() || buffer.numbers.scalar_type() != sum.scalar_type() ||
        buffer.numbers.numel() < sum.numel())
      buffer.numbers = at::empty({sum.numel()}, gradient.options().dtype(sum.scalar_type()));
    const at::Tensor working = buffer.numbers.narrow(0, 0, sum.numel());
    if (any) {
      working.copy_(sum, /*non_blocking=*/true);
      working.add_(gradient);
    } else {
      working.copy_(gradient);
    }
  }
  base::WaitForStream(out_.stream(), in_.stream());
  const c10::StreamGuard on(out_.stream());
  sum.copy_(buffer.numbers.narrow(0, 0, sum.numel()), /*non_blocking=*/true);
  if (!buffer.free.has_value()) buffer.free.emplace(out_.device().type());
  buffer.free->record(out_.stream());
}

void HostSums::Wait() {
  while (leaving_.size() > 0) leaving_.LetGo();
  c10::Event done(out_.device().type());
  done.record(out_.stream());
  done.synchronize();
}

}  // namespace moonring::trainer
