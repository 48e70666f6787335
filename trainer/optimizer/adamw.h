#ifndef MOONRING_TRAINER_OPTIMIZER_ADAMW_H_
#define MOONRING_TRAINER_OPTIMIZER_ADAMW_H_

// AdamW with decoupled weight decay, equal to torch.optim.AdamW (step t = 1, 2, ...):
//
//   w <- w (1 - lr * decay)        m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// w: weight, g: gradient, b1 and b2: the betas; m and v: first and second moment. m and v are fp32
// (fp64 for an fp64 weight), or stored in bf16 or 8 bits between steps (moment.h). A bf16 weight is
// updated in fp32 and rounded once, at the end. Biases and norms, recognized by name
// (trainer/optimizer/weight_decay.h), are not decayed unless `decay_all`; LoRA+'s parameters use lr
// times its ratio (trainer/optimizer/lora_plus.h). StepWith changes betas, epsilon and decay for
// one step; t counts all steps of the parameter, and the bias correction uses the betas of the
// call.
//
// Cost: one pass over w, g, m, v (LibTorch's fused, vectorized step). Memory: 8 bytes per element
// from the first step on, plus the largest bf16 parameter in fp32 during its update. All weights
// with the dtype of their moments are updated in one call, which on a device takes a few launches
// and no synchronization; with the kernel of kernels/adamw.h it takes one launch, also for bf16
// weights. If AdamWOptions::memory is set, m and v are allocated in that memory when the optimizer
// is created, so that a full disk is an error before the first step. Parameters must then be
// one-dimensional and on the host, and a step processes pieces of kPiece elements.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/text/fields.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/optimizer/moment.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/sharding/state_memory.h"

namespace moonring::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double loraplus_ratio = 1.0;
  std::shared_ptr<StateMemory> memory;       // null: allocated next to the weights
  MomentDtype moments = MomentDtype::kFull;  // storage of m and v; not for fp64 weights
  bool full_embeddings = false;              // embedding_names.h
  bool decay_all = false;                    // biases and norms too

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &AdamWOptions::beta1},
      base::Field{"beta2", &AdamWOptions::beta2},
      base::Field{"epsilon", &AdamWOptions::epsilon},
      base::Field{"loraplus_lr_ratio", &AdamWOptions::loraplus_ratio, kLoraPlusMeaning},
      base::Field{"weight_decay", &AdamWOptions::weight_decay,
                  "decoupled weight decay (arXiv:1711.05101), not applied to biases and norms"},
      base::Field{"decay_all", &AdamWOptions::decay_all,
                  "whether weight decay applies to biases and norms too, as in torch.optim.AdamW"},
      base::Field{"full_embeddings", &AdamWOptions::full_embeddings,
                  "whether m and v of embeddings are stored in fp32, whatever `state` is, as the "
                  "Trainer does with bitsandbytes"},
      base::Field{"state", &AdamWOptions::moments,
                  "format in which m and v are stored between steps"},
  };
};

class AdamW : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(AdamWOptions options,
                                                       base::Parameters parameters);

  void Step(double lr) override;
  absl::Status StepWith(double lr, const StepSettings& settings) override;
  std::map<std::string, at::Tensor> SaveState() const override;
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;
  int64_t state_bytes() const override;
  base::Parameters parameters() const override;

 private:
  static constexpr int64_t kPiece = int64_t{1} << 22;

  struct Slot {
    std::shared_ptr<base::Parameter> parameter;
    bool decays;
    double rate;
    Moment mean, square;
    at::Tensor step;   // fp32 scalar; undefined before the first step
    int64_t made = 0;  // copy of `step` on the host; kept unless moments are kFull
  };
  // The saved state of one parameter, as returned by SaveState.
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
  // Checks the gradient of the slot and creates its state if there is none.
  void Prepare(Slot& slot, const at::Tensor& gradient);
  static uint64_t RoundingKey(const Slot& slot);
  void StepAll(const AdamWOptions& options, double lr, bool absent_is_zero);
  void StepSlot(Slot& slot, const at::Tensor& gradient, const AdamWOptions& options,
                double lr) const;
  // Calls the kernel once; weight and gradient may have any dtype.
  static void StepPiece(const Slot& slot, const AdamWOptions& options, double lr,
                        const at::Tensor& weight, const at::Tensor& gradient,
                        const at::Tensor& mean, const at::Tensor& square);

  AdamWOptions options_;
  std::vector<Slot> slots_;
  // code tables for 8 bits on the weights' device: unsigned, signed
  std::array<at::Tensor, 2> codes_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_ADAMW_H_
