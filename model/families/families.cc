#include "model/families/families.h"

namespace moonring::model {

const std::vector<Family>& Families() {
  static const auto* const families = new std::vector<Family>{
      Llama(),         Mistral(),    SmolLm3(),   Qwen2(),     Qwen3(),      Gemma(),
      Gemma2(),        Gemma3(),     Gemma4(),    Phi3(),      Olmo2(),      Olmo3(),
      Granite(),       Glm(),        Glm4(),      InternLm2(), InternLm3(),  SeedOss(),
      Mixtral(),       Qwen2Moe(),   Qwen3Moe(),  Qwen3Next(), Qwen35(),     Qwen35Moe(),
      Lfm2(),          OlmoHybrid(), Glm4Moe(),   GptOss(),    DeepseekV3(), KimiLinear(),
      GraniteHybrid(), Ministral3(), NemotronH(),
  };
  return *families;
}

}  // namespace moonring::model
