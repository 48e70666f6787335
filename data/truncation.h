// Turns -> a document: cut to cutoff_len, and which tokens are learnt. The rules are LLaMA-Factory
// 0.9.5's, to the token.
//
// Turns are taken in order (with mask_history from the last, so that the last keeps its room) until
// cutoff_len is reached; each is cut to the room that is left: where the response is short (2 x
// response < room) only the prompt is cut; else where the prompt is short, only the response; else
// both, in proportion. An eos is cut like any other token.
//
// Learnt are the responses; also the prompts with train_on_prompt; of responses only the last with
// mask_history; and of these none that its author marked as not to be learnt.
#ifndef MOONRING_DATA_TRUNCATION_H_
#define MOONRING_DATA_TRUNCATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "data/example.h"
#include "data/text/conversation.h"

namespace moonring::data {

struct TurnLengths {
  int64_t prompt, response;
};

// What is kept of a prompt and a response where `room` tokens are left.
TurnLengths FitTurn(int64_t prompt, int64_t response, int64_t room);

struct LearnOptions {
  int64_t cutoff_len = 2048;
  bool train_on_prompt = false;
  bool mask_history = false;
  std::optional<int32_t>
      efficient_eos;  // the id, where the template parts turns by an eos of its own
};

struct BuiltDocument {
  Document document;
  int64_t whole_tokens = 0;  // had nothing been cut
  bool truncated() const { return document.size() < whole_tokens; }
};

BuiltDocument BuildConversation(const std::vector<EncodedTurn>& turns, const LearnOptions& options);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TRUNCATION_H_
