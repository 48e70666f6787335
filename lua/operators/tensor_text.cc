#include "lua/operators/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lua/binding/dtype_names.h"

namespace moonring::lua {
namespace {

constexpr int64_t kWholeUpTo = 1000;  // elements; larger tensors are abbreviated
constexpr int64_t kEdge = 3;
constexpr int kLineWidth = 80;
constexpr int kDigits = 4;

// The common format of a tensor's numbers, with one width for all.
class NumberStyle {
 public:
  // `shown`: the real numbers that will be printed, as a tensor of dtype fp64.
  explicit NumberStyle(const std::vector<double>& shown) {
    double least = INFINITY, most = 0;
    for (const double value : shown) {
      if (!std::isfinite(value) || value == 0) continue;
      least = std::min(least, std::fabs(value));
      most = std::max(most, std::fabs(value));
      whole_ = whole_ && value == std::ceil(value);
    }
    if (most == 0) return;
    powers_ = most / least > 1000.0 || most > 1e8 || least < 1e-4;
    for (const double value : shown) {
      if (std::isfinite(value) && value != 0)
        width_ = std::max(width_, static_cast<int>(Bare(value).size()));
    }
  }

  int width() const { return width_; }
  std::string Write(double value) const {
    const std::string text = Bare(value);
    return absl::StrCat(std::string(std::max(0, width_ - static_cast<int>(text.size())), ' '),
                        text);
  }

 private:
  std::string Bare(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (powers_) return absl::StrFormat("%.*e", kDigits, value);
    if (whole_) return absl::StrFormat("%.0f.", value);
    return absl::StrFormat("%.*f", kDigits, value);
  }

  bool whole_ = true, powers_ = false;
  int width_ = 1;
};

// The texts of the printed elements, in order, and the width that each element takes in a row.
struct Texts {
  std::vector<std::string> all;
  size_t width = 1;
};

Texts WriteReals(const at::Tensor& flat) {
  const at::Tensor doubles = flat.to(at::kDouble).contiguous();
  const double* const data = doubles.const_data_ptr<double>();
  const std::vector<double> values(data, data + doubles.numel());
  const NumberStyle style(values);
  Texts texts{.width = static_cast<size_t>(style.width())};
  for (const double value : values) texts.all.push_back(style.Write(value));
  return texts;
}

Texts WriteIntegers(const at::Tensor& flat) {
  Texts texts;
  const bool is_bool = flat.scalar_type() == at::kBool;
  const at::Tensor longs = flat.to(at::kLong).contiguous();
  for (int64_t i = 0; i < longs.numel(); ++i) {
    const int64_t value = longs.const_data_ptr<int64_t>()[i];
    texts.all.push_back(is_bool ? (value != 0 ? "True" : "False") : absl::StrCat(value));
    texts.width = std::max(texts.width, texts.all.back().size());
  }
  for (std::string& text : texts.all) text.insert(0, texts.width - text.size(), ' ');
  return texts;
}

Texts WriteComplex(const at::Tensor& flat) {
  const at::Tensor parts = at::view_as_real(flat.to(at::kComplexDouble).contiguous());
  const Texts real = WriteReals(parts.select(1, 0));
  Texts imaginary = WriteReals(parts.select(1, 1));
  Texts texts{.width = real.width + imaginary.width + 1};
  for (size_t i = 0; i < real.all.size(); ++i) {
    std::string& part = imaginary.all[i];
    part.erase(0, part.find_first_not_of(' '));
    texts.all.push_back(absl::StrCat(real.all[i], part[0] == '-' ? "" : "+", part, "j"));
  }
  return texts;
}

// The printed part of a tensor: all of it, or the edges of each dim.
at::Tensor Shown(const at::Tensor& tensor, bool edges) {
  at::Tensor shown = tensor;
  if (!edges) return shown;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const int64_t size = shown.size(dim);
    if (size <= 2 * kEdge) continue;
    shown = at::cat({shown.narrow(dim, 0, kEdge), shown.narrow(dim, size - kEdge, kEdge)}, dim);
  }
  return shown;
}

class Writer {
 public:
  Writer(const at::Tensor& tensor, bool edges) : sizes_(tensor.sizes().vec()), edges_(edges) {
    const at::Tensor flat = Shown(tensor, edges).reshape({-1}).to(at::kCPU);
    texts_ = tensor.is_complex()          ? WriteComplex(flat)
             : tensor.is_floating_point() ? WriteReals(flat)
                                          : WriteIntegers(flat);
  }

  std::string Write(int indent) { return WriteDim(0, indent); }

 private:
  std::string WriteDim(size_t dim, int indent) {
    if (dim == sizes_.size()) return texts_.all[next_++];
    const bool cut = edges_ && sizes_[dim] > 2 * kEdge;
    const int64_t count = cut ? 2 * kEdge : sizes_[dim];
    std::vector<std::string> parts;
    for (int64_t i = 0; i < count; ++i) {
      if (cut && i == kEdge) parts.push_back(dim + 1 == sizes_.size() ? " ..." : "...");
      parts.push_back(WriteDim(dim + 1, indent + 1));
    }
    const size_t below = sizes_.size() - dim - 1;  // number of inner dims
    const std::string next_line = absl::StrCat(",", std::string(std::max<size_t>(1, below), '\n'),
                                               std::string(indent + 1, ' '));
    if (below > 0) return absl::StrCat("[", absl::StrJoin(parts, next_line), "]");
    return absl::StrCat("[", Row(parts, indent, next_line), "]");
  }

  // Formats a row, with line breaks where a line is full.
  std::string Row(const std::vector<std::string>& parts, int indent,
                  const std::string& next_line) const {
    const size_t fit =
        std::max<int64_t>(1, (kLineWidth - indent) / static_cast<int64_t>(texts_.width + 2));
    std::string row;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) absl::StrAppend(&row, i % fit == 0 ? next_line : ", ");
      absl::StrAppend(&row, parts[i]);
    }
    return row;
  }

  const std::vector<int64_t> sizes_;
  const bool edges_;
  Texts texts_;
  size_t next_ = 0;
};

std::vector<std::string> Suffixes(const at::Tensor& tensor, bool has_values) {
  std::vector<std::string> suffixes;
  if (!tensor.is_cpu()) suffixes.push_back(absl::StrCat("device='", tensor.device().str(), "'"));
  if (!has_values || (tensor.numel() == 0 && tensor.dim() != 1))
    suffixes.push_back(absl::StrCat("size=(", absl::StrJoin(tensor.sizes(), ", "),
                                    tensor.dim() == 1 ? ",)" : ")"));
  const at::ScalarType dtype = tensor.scalar_type();
  const bool plain = dtype == at::kFloat || dtype == at::kBool || dtype == at::kComplexFloat ||
                     (dtype == at::kLong && tensor.numel() > 0);
  if (!plain) suffixes.push_back(absl::StrCat("dtype=", NameOfDtype(dtype)));
  if (tensor.layout() != at::kStrided) {
    std::ostringstream layout;
    layout << tensor.layout();
    suffixes.push_back(absl::StrCat("layout=", layout.str()));
  }
  if (const auto& node = tensor.grad_fn()) {
    suffixes.push_back(absl::StrCat("grad_fn=<", node->name(), ">"));
  } else if (tensor.requires_grad()) {
    suffixes.push_back("requires_grad=True");
  }
  return suffixes;
}

}  // namespace

std::string TensorText(const at::Tensor& tensor) {
  constexpr absl::string_view kHead = "tensor(";
  const bool has_values = tensor.layout() == at::kStrided && !tensor.is_meta();
  std::string text;
  if (!has_values) {
    text = "...";
  } else if (tensor.numel() == 0) {
    text = "[]";
  } else {
    const at::NoGradGuard no_grad;
    Writer writer(tensor.detach(), tensor.numel() > kWholeUpTo);
    text = writer.Write(static_cast<int>(kHead.size()));
  }
  text = absl::StrCat(kHead, text);
  // The column at which the next suffix begins: two more than the length of the last line, as in
  // PyTorch.
  size_t used =
      text.size() - (text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1) + 2;
  for (const std::string& suffix : Suffixes(tensor, has_values)) {
    const bool breaks = used + suffix.size() + 2 > kLineWidth;
    absl::StrAppend(&text, breaks ? absl::StrCat(",\n", std::string(kHead.size(), ' ')) : ", ",
                    suffix);
    used = breaks ? kHead.size() + suffix.size() : used + suffix.size() + 2;
  }
  return absl::StrCat(text, ")");
}

}  // namespace moonring::lua
