#ifndef MOONRING_MIXERS_OVER_RANKS_MIXING_STRATEGY_H_
#define MOONRING_MIXERS_OVER_RANKS_MIXING_STRATEGY_H_

// Strategies for layers that are not softmax attention (linear attention and short convolutions),
// where a micro-batch's tokens are distributed over a group of ranks.
//
//   heads  rows travel; each rank has some heads of all rows          heads_mixing.h
//   spans  spans' maps travel, all at once; each rank keeps its rows  spans_mixing.h
//   relay  states travel from rank to rank; each rank keeps its rows  relay_mixing.h
//   auto   the one with the least predicted time                      mixing_cost.h
//
// A span is a contiguous run of a document's tokens on one rank; its map is how it changes the
// recurrent state (span.h). With any strategy, a single rank communicates nothing (local_mixing.h).

#include <optional>
#include <string_view>

namespace moonring::mixers {

enum class MixingStrategy { kAuto, kHeads, kSpans, kRelay };

inline constexpr MixingStrategy kMixingStrategies[] = {
    MixingStrategy::kHeads, MixingStrategy::kSpans, MixingStrategy::kRelay};

// The strategy's name, which is its value of the configuration key linear_attention_mode.
inline constexpr const char* MixingStrategyName(MixingStrategy strategy) {
  switch (strategy) {
    case MixingStrategy::kAuto:
      return "auto";
    case MixingStrategy::kHeads:
      return "heads";
    case MixingStrategy::kSpans:
      return "spans";
    case MixingStrategy::kRelay:
      return "relay";
  }
  return "";
}

// The strategy of this name; nullopt for an unknown name.
inline constexpr std::optional<MixingStrategy> MixingStrategyOf(std::string_view name) {
  for (const MixingStrategy strategy : {MixingStrategy::kAuto, MixingStrategy::kHeads,
                                        MixingStrategy::kSpans, MixingStrategy::kRelay})
    if (name == MixingStrategyName(strategy)) return strategy;
  return std::nullopt;
}

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_MIXING_STRATEGY_H_
