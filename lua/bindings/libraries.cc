#include "lua/bindings/libraries.h"

#include "lua/bindings/bindings.h"

namespace moonring::lua {

absl::Span<const Library> AllLibraries() {
  static constexpr Library kLibraries[] = {
      {"moonring.native.errors", &OpenErrors},
      {"moonring.native.tensor", &OpenTensor},
      {"moonring.native.autograd", &OpenAutograd},
      {"moonring.native.operators", &OpenOperators},
      {"moonring.native.system", &OpenSystem},
      {"moonring.native.comm", &OpenComm},
      {"moonring.native.collectives", &OpenCollectives},
      {"moonring.native.attention", &OpenAttention},
      {"moonring.native.mixing", &OpenMixing},
      {"moonring.native.model", &OpenModel},
      {"moonring.native.data", &OpenData},
      {"moonring.native.source", &OpenSource},
      {"moonring.native.objectives", &OpenObjectives},
      {"moonring.native.trainer", &OpenTrainer},
      {"moonring.native.safetensors", &OpenSafetensors},
      {"moonring.native.serve", &OpenServe},
      {"moonring.native.hub", &OpenHub},
      {"moonring.native.trace", &OpenTrace},
      {"moonring.native.rewards", &OpenRewards},
      {"moonring.native.watch", &OpenWatch},
      {"moonring.native.prompt", &OpenPromptLibrary},
  };
  return kLibraries;
}

}  // namespace moonring::lua
