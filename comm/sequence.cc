#include "comm/sequence.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::comm {
namespace {

// Adds the size of the array to the checksum first: otherwise a number could move to the next array
// without a change of the checksum, and zlib would restart at the null pointer of an empty array.
uint32_t ChecksumOfNumbers(absl::Span<const int64_t> numbers, uint32_t before) {
  const auto add = [&](const int64_t* data, size_t count) {
    const auto* bytes = reinterpret_cast<const Bytef*>(data);
    before = static_cast<uint32_t>(crc32_z(before, bytes, count * sizeof(int64_t)));
  };
  const auto size = static_cast<int64_t>(numbers.size());
  add(&size, 1);
  if (!numbers.empty()) add(numbers.data(), numbers.size());
  return before;
}

absl::Status ValidateTensor(const char* name, const at::Tensor& tensor, int64_t tokens) {
  if (!tensor.defined() || tensor.dim() != 1 || tensor.size(0) != tokens ||
      tensor.scalar_type() != at::kLong || !tensor.is_cpu()) {
    const std::string came = tensor.defined() ? c10::str(tensor.scalar_type(), " ", tensor.sizes(),
                                                         " on ", tensor.device())
                                              : "nothing";
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected int64 [", tokens, "] on the host, got ", came));
  }
  return absl::OkStatus();
}

std::vector<bool> AreParents(const Sequence& sequence) {
  std::vector<bool> is_parent(sequence.lengths.size(), false);
  for (const Parent& parent : sequence.parents) {
    if (parent.document >= 0) is_parent[parent.document] = true;
  }
  return is_parent;
}

absl::Status ValidateParents(const Sequence& sequence) {
  const auto count = static_cast<int64_t>(sequence.lengths.size());
  const std::vector<Parent>& parents = sequence.parents;
  if (parents.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(parents.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("parents of ", parents.size(), " documents for ", count));
  }
  for (int64_t d = 0; d < count; ++d) {
    const auto& [document, tokens] = parents[d];
    const auto wrong = [&](const auto&... words) {
      return absl::InvalidArgumentError(
          absl::StrCat("document ", d, " of 0..", count - 1, ": ", words...));
    };
    if (document < -1 || document >= count || document == d)
      return wrong("parent ", document, ", expected another document, or -1 for none");
    const int64_t most = document < 0 ? 0 : sequence.lengths[document];
    if (tokens < 0 || tokens > most)
      return wrong(tokens, " tokens of its parent, expected 0 to ", most);
    int64_t steps = 0;
    for (int64_t at = document; at >= 0 && at < count; at = parents[at].document) {
      if (++steps == count) return wrong("its parents go in a circle");
    }
  }
  return absl::OkStatus();
}

absl::Status ParentsPredictNothing(const Sequence& sequence) {
  const std::vector<bool> is_parent = AreParents(sequence);
  int64_t begin = 0;
  for (size_t d = 0; d < is_parent.size(); begin += sequence.lengths[d++]) {
    const at::Tensor targets_T = sequence.targets_T.narrow(0, begin, sequence.lengths[d]);
    if (is_parent[d] && targets_T.ne(kIgnore).any().item<bool>()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "document ", d, " of 0..", is_parent.size() - 1,
          ": it has targets, but is the parent of other documents: a parent must have no targets"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

at::Tensor ShiftLabels(const at::Tensor& labels_T, absl::Span<const int64_t> lengths) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  TORCH_CHECK(labels_T.dim() == 1 && labels_T.size(0) == tokens, "labels of shape ",
              labels_T.sizes(), " for documents of ", tokens, " tokens");
  at::Tensor targets_T = at::full({tokens}, kIgnore, at::kLong);
  if (tokens > 1) targets_T.slice(0, 0, tokens - 1).copy_(labels_T.slice(0, 1));
  int64_t end = 0;
  for (const int64_t length : lengths) {
    end += length;
    if (length > 0) targets_T[end - 1].fill_(kIgnore);
  }
  return targets_T;
}

at::Tensor PositionsInDocuments(absl::Span<const int64_t> lengths) {
  std::vector<at::Tensor> positions;
  positions.reserve(lengths.size());
  for (const int64_t length : lengths) positions.push_back(at::arange(length, at::kLong));
  return positions.empty() ? at::empty({0}, at::kLong) : at::cat(positions);
}

at::Tensor LengthsOfTokens(const Sequence& sequence) {
  std::vector<int64_t> whole = sequence.lengths;
  for (size_t d = 0; d < sequence.parents.size(); ++d) {
    for (Parent at = sequence.parents[d]; at.document >= 0; at = sequence.parents[at.document])
      whole[d] += at.tokens;
  }
  return at::tensor(whole, at::kLong).repeat_interleave(at::tensor(sequence.lengths, at::kLong));
}

std::vector<int64_t> OwnDocuments(const Sequence& sequence) {
  const std::vector<bool> is_parent = AreParents(sequence);
  std::vector<int64_t> own;
  for (size_t d = 0; d < is_parent.size(); ++d) {
    if (!is_parent[d]) own.push_back(static_cast<int64_t>(d));
  }
  return own;
}

std::vector<int64_t> PromptLengths(const Sequence& sequence) {
  const at::Tensor targets_T = sequence.targets_T.contiguous();
  const int64_t* target = targets_T.const_data_ptr<int64_t>();
  std::vector<int64_t> prompts;
  for (const int64_t length : sequence.lengths) {
    const int64_t silent =
        std::find_if(target, target + length, [](int64_t id) { return id != kIgnore; }) - target;
    prompts.push_back(std::min(silent + 1, length));
    target += length;
  }
  return prompts;
}

uint32_t Checksum(const Sequence& sequence, uint32_t before, int64_t labels) {
  uint32_t sum = ChecksumOfNumbers(absl::MakeConstSpan(sequence.lengths), before);
  for (const at::Tensor* tensor : {&sequence.ids_T, &sequence.positions_T, &sequence.targets_T}) {
    const at::Tensor row = tensor->contiguous();
    sum = ChecksumOfNumbers(absl::MakeConstSpan(row.const_data_ptr<int64_t>(), row.numel()), sum);
  }
  std::vector<int64_t> parents;
  for (const Parent& parent : sequence.parents) {
    parents.push_back(parent.document);
    parents.push_back(parent.tokens);
  }
  sum = ChecksumOfNumbers(absl::MakeConstSpan(parents), sum);
  return ChecksumOfNumbers(absl::MakeConstSpan(&labels, 1), sum);
}

absl::Status Validate(const Sequence& sequence) {
  int64_t tokens = 0;
  for (size_t d = 0; d < sequence.lengths.size(); ++d) {
    if (sequence.lengths[d] < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("document ", d, " has ", sequence.lengths[d], " tokens"));
    tokens += sequence.lengths[d];
  }
  RETURN_IF_ERROR(ValidateTensor("ids", sequence.ids_T, tokens));
  RETURN_IF_ERROR(ValidateTensor("positions", sequence.positions_T, tokens));
  if (sequence.identity_T.defined())
    RETURN_IF_ERROR(ValidateTensor("identity", sequence.identity_T, tokens));
  RETURN_IF_ERROR(ValidateTensor("targets", sequence.targets_T, tokens));
  RETURN_IF_ERROR(ValidateParents(sequence));
  return ParentsPredictNothing(sequence);
}

}  // namespace moonring::comm
