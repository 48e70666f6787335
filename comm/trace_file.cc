#include "comm/trace_file.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "absl/strings/str_cat.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/trace/trace_json.h"

namespace moonring::comm {
namespace {

constexpr int64_t kPiece = int64_t{64} << 20;  // bytes per message

absl::Status SendText(Communicator& group, const std::string& text) {
  at::Tensor size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  ASSIGN_OR_RETURN(Communicator::Transfer first, group.Exchange({{size, 0}}, {}));
  RETURN_IF_ERROR(first.Wait());
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const auto bytes = static_cast<int64_t>(std::min<size_t>(kPiece, text.size() - at));
    at::Tensor piece = at::empty({bytes}, at::kByte);
    std::memcpy(piece.mutable_data_ptr(), text.data() + at, bytes);
    ASSIGN_OR_RETURN(Communicator::Transfer next, group.Exchange({{piece, 0}}, {}));
    RETURN_IF_ERROR(next.Wait());
  }
  return absl::OkStatus();
}

// Receives a text from `peer` and calls `take` with each piece of it.
template <typename Take>
absl::Status ReceiveText(Communicator& group, int peer, const Take& take) {
  at::Tensor size = at::empty({1}, at::kLong);
  ASSIGN_OR_RETURN(Communicator::Transfer first, group.Exchange({}, {{size, peer}}));
  RETURN_IF_ERROR(first.Wait());
  const int64_t bytes = size.const_data_ptr<int64_t>()[0];
  for (int64_t at = 0; at < bytes; at += kPiece) {
    at::Tensor piece = at::empty({std::min(kPiece, bytes - at)}, at::kByte);
    ASSIGN_OR_RETURN(Communicator::Transfer next, group.Exchange({}, {{piece, peer}}));
    RETURN_IF_ERROR(next.Wait());
    take(absl::string_view(static_cast<const char*>(piece.const_data_ptr()), piece.numel()));
  }
  return absl::OkStatus();
}

// A file that keeps its first error and ignores all writes after it.
class Sink {
 public:
  explicit Sink(const std::string& path) {
    auto file = base::OutputFile::Create(path);
    status_ = file.status();
    if (file.ok()) file_ = *std::move(file);
  }
  void Append(absl::string_view text) {
    if (status_.ok()) status_ = file_->Append(text);
  }
  absl::Status Commit() { return status_.ok() ? file_->Commit() : status_; }

 private:
  absl::Status status_;
  std::unique_ptr<base::OutputFile> file_;
};

// Agrees over the ranks on the facts of the trace: the sum of the spans that each omitted, the
// largest uncertainty of a clock's offset, and the time when the first rank began to record.
absl::Status Share(Communicator& group, const ClockOffset& before, TraceFacts& facts,
                   int64_t& origin) {
  at::Tensor sum = at::full({1}, facts.left_out, at::kLong);
  RETURN_IF_ERROR(group.AllReduceSum(sum));
  at::Tensor most = at::full({1}, facts.uncertainty, at::kLong);
  RETURN_IF_ERROR(group.AllReduceMax(most));
  at::Tensor first = at::full({1}, -(before.at + before.to_first), at::kLong);
  RETURN_IF_ERROR(group.AllReduceMax(first));
  facts = {sum.const_data_ptr<int64_t>()[0], most.const_data_ptr<int64_t>()[0]};
  origin = -first.const_data_ptr<int64_t>()[0];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TraceFacts> WriteTrace(const base::TraceRecorder& recorder, Communicator& group,
                                      const TraceFileOptions& options) {
  const ClockOffset &before = options.before, &after = options.after;
  TraceFacts facts{recorder.left_out(), std::max(before.uncertainty, after.uncertainty)};
  int64_t origin = 0;
  RETURN_IF_ERROR(Share(group, before, facts, origin), "trace");
  const std::string mine = base::TraceEventsJson(recorder, group.rank(), [&](int64_t time) {
    return ByFirstClock(time, before, after) - origin;
  });
  if (group.rank() != 0) {
    RETURN_IF_ERROR(SendText(group, mine), "trace");
    return facts;
  }
  Sink file(options.path);
  file.Append("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  file.Append(mine);
  for (int peer = 1; peer < group.size(); ++peer) {
    RETURN_IF_ERROR(ReceiveText(group, peer, [&](absl::string_view piece) { file.Append(piece); }),
                    "trace");
  }
  // The last event of the file has no comma after it.
  file.Append(absl::StrCat(
      "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,",
      "\"args\":{\"labels\":\"Moonring\"}}\n],\n", "\"otherData\":{\"ranks\":", group.size(),
      ",\"left_out\":", facts.left_out, ",\"clock_uncertainty_ns\":", facts.uncertainty,
      ",\"run\":", options.details, "}}\n"));
  RETURN_IF_ERROR(file.Commit(), "trace");
  return facts;
}

}  // namespace moonring::comm
