// Builds a document from a conversation's turns: truncates it to cutoff_len tokens and makes the
// labels. The results are those of LLaMA-Factory 0.9.5, token for token.
//
// Turns are processed in order (with mask_history in reverse order, so that the last turn is
// truncated least) until the document has cutoff_len tokens. Each turn is truncated to the number
// of tokens that are still allowed, the room: if 2 x response < room, only the prompt is truncated;
// otherwise, if 2 x prompt < room, only the response; otherwise both, in proportion. An eos may be
// truncated like any other token.
//
// Labels are on the responses, with train_on_prompt also on the prompts, with mask_history only on
// the last response. Turns that the data marks as not trained have no labels.
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

// How many tokens of a prompt and a response are kept if there is room for `room` tokens.
TurnLengths FitTurn(int64_t prompt, int64_t response, int64_t room);

struct LearnOptions {
  int64_t cutoff_len = 2048;
  bool train_on_prompt = false;
  bool mask_history = false;
  std::optional<int32_t>
      efficient_eos;  // the eos id, if the template separates turns by an eos (efficient_eos)
};

struct BuiltDocument {
  Document document;
  int64_t whole_tokens = 0;  // length without truncation
  bool truncated() const { return document.size() < whole_tokens; }
};

BuiltDocument BuildConversation(const std::vector<EncodedTurn>& turns, const LearnOptions& options);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TRUNCATION_H_
