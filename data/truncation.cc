#include "data/truncation.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace moonring::data {
namespace {

// Truncates one turn and makes its labels. `before`: the preceding turn of the conversation, or
// null.
Document CutTurn(const EncodedTurn& turn, TurnLengths kept, bool first, const EncodedTurn* before,
                 const LearnOptions& options) {
  Document cut;
  cut.ids.assign(turn.prompt.begin(), turn.prompt.begin() + kept.prompt);
  if (options.train_on_prompt && turn.learns_prompt) {
    cut.labels = cut.ids;
  } else {
    cut.labels.assign(kept.prompt, kNotLearnt);
    // The first token of the prompt is the eos of the preceding turn, and is trained if that turn's
    // response is.
    if (options.efficient_eos.has_value() && !first && kept.prompt > 0 &&
        (before == nullptr || before->learns_response))
      cut.labels[0] = *options.efficient_eos;
  }
  cut.ids.insert(cut.ids.end(), turn.response.begin(), turn.response.begin() + kept.response);
  if ((options.mask_history && !first) || !turn.learns_response) {
    cut.labels.insert(cut.labels.end(), kept.response, kNotLearnt);
  } else {
    cut.labels.insert(cut.labels.end(), turn.response.begin(),
                      turn.response.begin() + kept.response);
  }
  return cut;
}

}  // namespace

TurnLengths FitTurn(int64_t prompt, int64_t response, int64_t room) {
  int64_t most;  // maximum length of the response
  if (response * 2 < room) {
    most = room;
  } else if (prompt * 2 < room) {
    most = room - prompt;
  } else {  // float arithmetic in LLaMA-Factory's order: rounding decides single tokens
    most =
        static_cast<int64_t>(static_cast<double>(room) * (static_cast<double>(response) /
                                                          static_cast<double>(prompt + response)));
  }
  const int64_t kept_response = std::min(most, response);
  return {std::min(std::max<int64_t>(room - kept_response, 0), prompt), kept_response};
}

BuiltDocument BuildConversation(const std::vector<EncodedTurn>& turns,
                                const LearnOptions& options) {
  TORCH_CHECK(!(options.train_on_prompt && options.mask_history),
              "train_on_prompt and mask_history exclude one another");
  TORCH_CHECK(!(options.train_on_prompt && options.efficient_eos.has_value()),
              "train_on_prompt does not go with a template that parts turns by its own eos");
  int64_t total = options.efficient_eos.has_value() ? 1 : 0;
  BuiltDocument built{.whole_tokens = total};
  for (const EncodedTurn& turn : turns)
    built.whole_tokens += static_cast<int64_t>(turn.prompt.size() + turn.response.size());
  std::vector<Document> cut;
  for (size_t i = 0; i < turns.size() && total < options.cutoff_len; ++i) {
    const size_t at = options.mask_history ? turns.size() - 1 - i : i;
    const EncodedTurn& turn = turns[at];
    const TurnLengths kept =
        FitTurn(turn.prompt.size(), turn.response.size(), options.cutoff_len - total);
    total += kept.prompt + kept.response;
    cut.push_back(CutTurn(turn, kept, i == 0, at > 0 ? &turns[at - 1] : nullptr, options));
  }
  if (options.mask_history) std::reverse(cut.begin(), cut.end());
  for (const Document& turn : cut) {
    built.document.ids.insert(built.document.ids.end(), turn.ids.begin(), turn.ids.end());
    built.document.labels.insert(built.document.labels.end(), turn.labels.begin(),
                                 turn.labels.end());
  }
  if (options.efficient_eos.has_value()) {
    built.document.ids.push_back(*options.efficient_eos);
    built.document.labels.push_back(turns.back().learns_response ? *options.efficient_eos
                                                                 : kNotLearnt);
  }
  return built;
}

}  // namespace moonring::data
