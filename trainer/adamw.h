#ifndef MOONRING_TRAINER_ADAMW_H_
#define MOONRING_TRAINER_ADAMW_H_

// AdamW, with decoupled weight decay, as torch.optim.AdamW has it (step t = 1, 2, ...):
//
//   w <- w (1 - lr * decay)        m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// m and v are fp32 (fp64 for an fp64 weight), or held in bf16 or 8 bits between steps (moment.h). A
// bf16 weight is updated in fp32 and rounded once, at
// the end. No decay for biases and norms, told by their names (trainer/weight_decay.h); LoRA+'s
// parameters take lr times its ratio (trainer/lora_plus.h).
//
// Cost: one pass over w, g, m, v (LibTorch's fused, vectorised step); memory 8 bytes a parameter
// from its first step on, and the largest bf16 parameter in fp32 while it is updated. All weights
// that are held in their states' dtype go through one call (on a device some launches, and nothing
// waits for it; one launch, for bf16 weights too, with the kernel of kernels/adamw.h). With a
// `memory` m and v lie there from the beginning (so that a disk too small is known before the first
// step), parameters are one-dimensional on the host, and the step goes over pieces of kPiece
// numbers.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "trainer/moment.h"
#include "trainer/optimizer.h"
#include "trainer/state_memory.h"

namespace moonring::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double loraplus_ratio = 1.0;
  std::shared_ptr<StateMemory> memory;       // null: beside the weights
  MomentDtype moments = MomentDtype::kFull;  // not of fp64 weights
  bool full_embeddings = false;  // those of embeddings in full (embedding_names.h), as the Trainer
                                 // has bitsandbytes keep them
};

class AdamW : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(AdamWOptions options,
                                                       base::Parameters parameters);

  void Step(double lr) override;
  std::map<std::string, at::Tensor> SaveState() const override;
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;
  int64_t state_bytes() const override;

 private:
  static constexpr int64_t kPiece = int64_t{1} << 22;

  struct Slot {
    std::shared_ptr<base::Parameter> parameter;
    double weight_decay, rate;
    Moment mean, square;
    at::Tensor step;   // undefined until they are made; an fp32 scalar
    int64_t made = 0;  // the same on the host, where moments are not held in full
  };
  // Of one parameter in what SaveState gave.
  struct SavedSlot {
    at::Tensor mean, square, step, mean_scale, square_scale;

    static std::optional<SavedSlot> Find(const std::map<std::string, at::Tensor>& state,
                                         const std::string& name);
    int parts() const { return mean.defined() + square.defined() + step.defined(); }
    int scales() const { return mean_scale.defined() + square_scale.defined(); }
  };
  AdamW(AdamWOptions options, std::vector<Slot> slots)
      : options_(options), slots_(std::move(slots)) {}
  absl::Status MakeState(Slot& slot);
  absl::Status CheckState(const std::map<std::string, at::Tensor>& state) const;
  absl::Status LoadInPlace(Slot& slot, const std::optional<SavedSlot>& saved);
  void LoadMoment(const Moment& held, const at::Tensor& numbers, const at::Tensor& scale) const;
  MomentDtype DtypeOf(const base::Parameter& parameter) const;
  absl::StatusOr<Moment> MakeMoment(const base::Parameter& parameter, bool is_signed) const;
  // Checks the gradient, and makes the state where there is none.
  void Prepare(Slot& slot);
  static uint64_t RoundingKey(const Slot& slot);
  void StepSlot(Slot& slot, double lr) const;
  // One call of the kernel; weight and gradient in any dtype.
  void StepPiece(const Slot& slot, double lr, const at::Tensor& weight, const at::Tensor& gradient,
                 const at::Tensor& mean, const at::Tensor& square) const;

  AdamWOptions options_;
  std::vector<Slot> slots_;
  std::array<at::Tensor, 2> codes_;  // of 8 bits, on the weights' device: without a sign, with one
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_ADAMW_H_
