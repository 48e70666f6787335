#include "objectives/preference_losses.h"

#include <cmath>

#include <ATen/ATen.h>

namespace moonring::objectives {
namespace {

at::Tensor Nll(const at::Tensor& logits) { return at::log_sigmoid(logits).neg(); }

at::Tensor Margin(const Pairs& pairs) { return pairs.chosen_ratio - pairs.rejected_ratio; }

// log(p / (1 - p)) for p = exp(mean). An answer without predictions has odds of one. The clamp
// avoids p = 1, which rounding may cause.
at::Tensor LogOdds(const at::Tensor& mean, const at::Tensor& known) {
  const at::Tensor log_p =
      at::where(known, mean, at::full_like(mean, -std::log(2.0))).clamp_max(-0x1p-40);
  return log_p - at::log(at::expm1(log_p).neg());
}

PairLosses OddsRatio(const Pairs& pairs, const PreferenceOptions& options) {
  const at::Tensor nll = pairs.chosen.neg();
  const at::Tensor odds_ratio = Nll(LogOdds(pairs.chosen, pairs.chosen_known) -
                                    LogOdds(pairs.rejected, pairs.rejected_known));
  return {nll + options.beta * odds_ratio, {{"sft_loss", nll}, {"odds_ratio_loss", odds_ratio}}};
}

constexpr PreferenceLoss kPreferenceLosses[] = {
    {.name = "sigmoid",
     .formula = "-(1 - e) log sigmoid(b d) - e log sigmoid(-b d)",
     .source = "DPO: Rafailov et al. 2023, arXiv 2305.18290, equation 7; e > 0 is cDPO: Mitchell "
               "2023, A note on DPO with noisy preferences",
     .needs_reference = true,
     .mean_log_probs = false,
     .most_smoothing = 0.5,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       const at::Tensor logits = o.beta * Margin(pairs);
       return {(1 - o.label_smoothing) * Nll(logits) + o.label_smoothing * Nll(-logits), {}};
     }},
    {.name = "hinge",
     .formula = "max(0, 1 - b d)",
     .source = "SLiC-HF: Zhao et al. 2023, arXiv 2305.10425, on ratios to the reference as in RSO: "
               "Liu et al. 2023, arXiv 2309.06657",
     .needs_reference = true,
     .mean_log_probs = false,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       return {at::relu(1 - o.beta * Margin(pairs)), {}};
     }},
    {.name = "ipo",
     .formula = "(d - 1 / (2 b))^2",
     .source = "IPO: Azar et al. 2023, arXiv 2310.12036, equation 17",
     .needs_reference = true,
     .mean_log_probs = true,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       return {(Margin(pairs) - 1 / (2 * o.beta)).square(), {}};
     }},
    {.name = "kto_pair",
     .formula = "((1 - sigmoid(b (c - c' - K'))) + (1 - sigmoid(b (K - (r - r'))))) / 2, the "
                "gradient flowing through K and K'",
     .source = "KTO: Ethayarajh et al. 2024, arXiv 2402.01306, equation 7, on pairs; TRL 0.8.6, "
               "DPOTrainer.dpo_loss",
     .needs_reference = true,
     .mean_log_probs = false,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = true,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       const at::Tensor chosen =
           at::sigmoid(o.beta * (pairs.rejected_divergence - pairs.chosen_ratio));
       const at::Tensor rejected =
           at::sigmoid(o.beta * (pairs.rejected_ratio - pairs.chosen_divergence));
       return {(chosen + rejected) / 2, {}};
     }},
    {.name = "orpo",
     .formula = "-c - b log sigmoid(log(p / (1 - p)) - log(q / (1 - q))), p = exp(c), q = exp(r)",
     .source = "ORPO: Hong et al. 2024, arXiv 2403.07691, equations 6 and 7",
     .needs_reference = false,
     .mean_log_probs = true,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = &OddsRatio},
    {.name = "simpo",
     .formula = "-log sigmoid(b (c - r) - g)",
     .source = "SimPO: Meng et al. 2024, arXiv 2405.14734, equation 6",
     .needs_reference = false,
     .mean_log_probs = true,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       return {Nll(o.beta * (pairs.chosen - pairs.rejected) - o.simpo_gamma), {}};
     }},
    {.name = "nca_pair",
     .formula =
         "-log sigmoid(b (c - c')) - log sigmoid(-b (c - c')) / 2 - log sigmoid(-b (r - r')) / 2",
     .source = "NCA: Chen et al. 2024, arXiv 2402.05369, for pairs; TRL 0.24, DPOTrainer.dpo_loss",
     .needs_reference = true,
     .mean_log_probs = false,
     .most_smoothing = 0.0,
     .smoothing_below_most = false,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       const at::Tensor chosen = o.beta * pairs.chosen_ratio,
                        rejected = o.beta * pairs.rejected_ratio;
       return {Nll(chosen) + 0.5 * Nll(-chosen) + 0.5 * Nll(-rejected), {}};
     }},
    {.name = "robust",
     .formula = "(-(1 - e) log sigmoid(b d) + e log sigmoid(-b d)) / (1 - 2 e)",
     .source = "Robust DPO: Chowdhury et al. 2024, arXiv 2403.00409; TRL 0.24, DPOTrainer.dpo_loss",
     .needs_reference = true,
     .mean_log_probs = false,
     .most_smoothing = 0.5,
     .smoothing_below_most = true,
     .uses_divergence = false,
     .function = [](const Pairs& pairs, const PreferenceOptions& o) -> PairLosses {
       const at::Tensor logits = o.beta * Margin(pairs);
       return {((1 - o.label_smoothing) * Nll(logits) - o.label_smoothing * Nll(-logits)) /
                   (1 - 2 * o.label_smoothing),
               {}};
     }},
};

}  // namespace

absl::Span<const PreferenceLoss> PreferenceLosses() { return kPreferenceLosses; }

}  // namespace moonring::objectives
