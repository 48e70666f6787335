#include "model/rollout/rollout.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "attention/kernels/tile_plan.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "kernels/products/product_scope.h"
#include "mixers/over_ranks/batch_mixing.h"
#include "mixers/over_ranks/end_states.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "model/next_logits.h"
#include "model/rollout/kept_casts.h"
#include "model/rollout/paged_cache.h"

namespace moonring::model {
namespace {

// Maximum number of prompt rows (tokens) per step and per forward; it limits the memory of
// activations.
constexpr int64_t kPromptRows = 512;

// A prompt of more tokens than this is computed in separate forwards.
constexpr int64_t kShortPrompt = 64;

// A sequence in the caches: a prompt, or one answer to it.
struct Sequence {
  int64_t keys = 0, state = 0;  // the sequence's numbers in the two caches
  int64_t tokens = 0;           // cached tokens
};

class Scheduler {
 public:
  Scheduler(Transformer& model, absl::Span<const RolloutPrompt> prompts,
            const RolloutOptions& options)
      : model_(model),
        given_(prompts),
        options_(options),
        spread_(options.spread.has_value() && options.spread->ranks->size() > 1 ? &*options.spread
                                                                                : nullptr),
        cache_(std::make_shared<PagedCache>(spread_ == nullptr ? nullptr : spread_->ranks)),
        made_(prompts.size(), std::vector<Answer>(std::max<int64_t>(0, options.answers))) {
    if (model.config().layers_keeping(MixerCache::kState) > 0)
      mixing_ = std::make_shared<mixers::BatchMixing>();
    if (options.sampling.max_new_tokens == 0) next_prompt_ = given_.size();
  }

  bool finished() const {
    return next_prompt_ == given_.size() && prompts_.empty() && running_.empty();
  }

  // Runs the forwards of long prompts, then one forward of the answers. With lockstep every rank
  // must run the same number of forwards, even if it has no rows. So prompts then run in the
  // forward of the answers or, if they are split over ranks, in one separate forward.
  void Step() {
    AdmitPrompts();
    int64_t left = kPromptRows;  // remaining prompt rows of this step
    if (spread_ != nullptr) {
      RunPrompts();
      left = 0;
    }
    const bool together = options_.lockstep != nullptr;
    Rows rows = AnswerRows();
    for (Prompt& prompt : prompts_) {
      const int64_t length = LengthOf(prompt);
      if (prompt.logits_V.defined() || left <= 0) continue;
      if (together) {
        left -= AddPiece(rows, prompt, left);
      } else if (length <= kShortPrompt) {
        left -= AddPiece(rows, prompt, length);
      } else {
        Rows piece;
        left -= AddPiece(piece, prompt, kPromptRows);
        RunRows(piece, /*few=*/false);
      }
    }
    if (!rows.ids.empty() || together)
      RunRows(rows, /*few=*/!together || rows.ids.size() <= kShortPrompt);
    StartAnswers();
  }

  std::vector<std::vector<Answer>> TakeAnswers() { return std::move(made_); }

  void Fill(RolloutReport& report) const {
    report = report_;
    report.most_blocks = cache_->pool().most_used();
    report.blocks_left = cache_->pool().used();
    report.cache_bytes = cache_->bytes() + (mixing_ == nullptr ? 0 : mixing_->bytes());
  }

 private:
  // A prompt that is being computed, or that waits until all of its answers have started.
  struct Prompt {
    size_t number = 0;
    Sequence sequence;
    at::Tensor logits_V;  // of the first new token; undefined until the prompt is computed
    int64_t begun = 0;    // number of answers started
  };
  struct Running {
    size_t prompt = 0;
    int64_t answer = 0;
    Sequence sequence;
  };
  // Rows of one forward, in this order: one row of each answer, then rows of prompts.
  struct Rows {
    std::vector<int64_t> ids, positions, lengths;
    std::vector<PagedCache::Rows> keys;
    std::vector<mixers::BatchMixing::Rows> states;
    // Rows whose logits are needed: those of the answers, then the last row of each prompt that
    // ends here.
    std::vector<int64_t> wanted;
    size_t answers = 0;
    std::vector<Prompt*> whole_prompts;

    void Add(Sequence& sequence, absl::Span<const int64_t> some, int64_t length) {
      const auto count = static_cast<int64_t>(some.size());
      ids.insert(ids.end(), some.begin(), some.end());
      for (int64_t row = 0; row < count; ++row) positions.push_back(sequence.tokens + row);
      lengths.insert(lengths.end(), count, length);
      keys.push_back({sequence.keys, count});
      states.push_back({sequence.state, count});
      sequence.tokens += count;
    }
  };

  Sequence Open() { return {cache_->Open(), mixing_ == nullptr ? 0 : mixing_->Open(), 0}; }
  Sequence Fork(const Sequence& from) {
    return {cache_->Fork(from.keys), mixing_ == nullptr ? 0 : mixing_->Fork(from.state),
            from.tokens};
  }
  void Close(const Sequence& sequence) {
    cache_->Close(sequence.keys);
    if (mixing_ != nullptr) mixing_->Close(sequence.state);
  }

  Answer& AnswerOf(const Running& running) { return made_[running.prompt][running.answer]; }

  ChoiceOf ChoiceFor(const Running& running, at::Tensor logits_V) {
    const RolloutPrompt& prompt = given_[running.prompt];
    return {std::move(logits_V), prompt.ids, AnswerOf(running).ids, prompt.key,
            static_cast<uint64_t>(running.answer)};
  }

  // Appends a choice to an answer. Returns whether the answer ends; its sequence is then closed.
  bool Take(const Running& running, const Choice& choice) {
    Answer& answer = AnswerOf(running);
    answer.ids.push_back(choice.id);
    answer.log_probs.push_back(choice.log_prob);
    const std::vector<int64_t>& stops = options_.sampling.stop_ids;
    answer.stopped = std::find(stops.begin(), stops.end(), choice.id) != stops.end();
    const auto count = static_cast<int64_t>(answer.ids.size()),
               all = count + static_cast<int64_t>(given_[running.prompt].ids.size());
    const bool ends = answer.stopped || count >= options_.sampling.max_new_tokens ||
                      all > model_.config().max_position_embeddings;
    if (ends) Close(running.sequence);
    return ends;
  }

  // Chooses tokens. Ranks that share the sequences use the choices of the first rank, because their
  // logits may differ in the last bit.
  std::vector<Choice> Choose(const std::vector<ChoiceOf>& choices) {
    std::vector<Choice> chosen = ChooseTokens(choices, options_.sampling);
    if (spread_ == nullptr || chosen.empty()) return chosen;
    at::Tensor all = at::empty({static_cast<int64_t>(chosen.size()), 2}, at::kDouble);
    auto* const numbers = all.mutable_data_ptr<double>();
    for (size_t i = 0; i < chosen.size(); ++i) {
      numbers[2 * i] = static_cast<double>(chosen[i].id);
      numbers[2 * i + 1] = chosen[i].log_prob;
    }
    base::ThrowIfError(spread_->ranks->Broadcast(all, /*root=*/0));
    const auto* const agreed = all.const_data_ptr<double>();
    for (size_t i = 0; i < chosen.size(); ++i)
      chosen[i] = {static_cast<int64_t>(agreed[2 * i]), agreed[2 * i + 1]};
    return chosen;
  }

  int64_t room() const { return options_.sequences - static_cast<int64_t>(running_.size()); }

  // Starts answers to computed prompts until `sequences` answers are running. The first token of an
  // answer is drawn from the prompt's logits.
  void StartAnswers() {
    while (room() > 0) {
      std::vector<Running> begun;
      std::vector<ChoiceOf> choices;
      for (Prompt& prompt : prompts_) {
        if (!prompt.logits_V.defined()) continue;
        for (; prompt.begun < options_.answers && static_cast<int64_t>(begun.size()) < room();
             ++prompt.begun) {
          begun.push_back({prompt.number, prompt.begun, Fork(prompt.sequence)});
          choices.push_back(ChoiceFor(begun.back(), prompt.logits_V));
        }
      }
      if (begun.empty()) return;
      const std::vector<Choice> chosen = Choose(choices);
      for (size_t i = 0; i < begun.size(); ++i) {
        if (!Take(begun[i], chosen[i])) running_.push_back(begun[i]);
      }
      for (auto prompt = prompts_.begin(); prompt != prompts_.end();) {
        if (prompt->begun < options_.answers) {
          ++prompt;
          continue;
        }
        Close(prompt->sequence);
        prompt = prompts_.erase(prompt);
      }
    }
  }

  // Admits prompts in order, until their answers that have not started yet are enough to fill the
  // free places (room()).
  void AdmitPrompts() {
    int64_t owed = 0;
    for (const Prompt& prompt : prompts_) owed += options_.answers - prompt.begun;
    while (next_prompt_ < given_.size() && owed < room()) {
      prompts_.push_back({next_prompt_++, Open(), {}, 0});
      owed += options_.answers;
    }
  }

  int64_t LengthOf(const Prompt& prompt) const {
    return static_cast<int64_t>(given_[prompt.number].ids.size());
  }

  Rows AnswerRows() {
    Rows rows;
    rows.answers = running_.size();
    for (Running& running : running_) {
      const Answer& answer = AnswerOf(running);
      const int64_t length = running.sequence.tokens + 1;
      rows.wanted.push_back(static_cast<int64_t>(rows.ids.size()));
      rows.Add(running.sequence, {&answer.ids.back(), 1}, length);
    }
    return rows;
  }

  // Adds at most `most` of the prompt's next rows to `rows`; returns how many.
  int64_t AddPiece(Rows& rows, Prompt& prompt, int64_t most) {
    const int64_t length = LengthOf(prompt), first = prompt.sequence.tokens,
                  count = std::min(most, length - first);
    rows.Add(prompt.sequence, absl::MakeConstSpan(given_[prompt.number].ids).subspan(first, count),
             length);
    if (first + count == length) {
      rows.wanted.push_back(static_cast<int64_t>(rows.ids.size()) - 1);
      rows.whole_prompts.push_back(&prompt);
    }
    return count;
  }

  // Runs a forward and processes its logits. `few`: use matrix products in which the bits of a row
  // do not depend on the other rows.
  void RunRows(const Rows& rows, bool few) {
    const at::NoGradGuard no_grad;
    cache_->Begin(rows.keys);
    if (mixing_ != nullptr) mixing_->Begin(rows.states);
    const at::Tensor hidden_TD =
        Hidden(base::ToDevice(rows.ids, at::kCPU), base::ToDevice(rows.positions, at::kCPU),
               base::ToDevice(rows.lengths, at::kCPU), mixing_, few);
    const at::Tensor logits_BV =
        Logits(hidden_TD.index_select(0, base::ToDevice(rows.wanted, hidden_TD.device())));
    std::vector<ChoiceOf> choices;
    for (size_t i = 0; i < rows.answers; ++i)
      choices.push_back(ChoiceFor(running_[i], logits_BV.select(0, static_cast<int64_t>(i))));
    for (size_t i = 0; i < rows.whole_prompts.size(); ++i) {
      // Makes a copy, because a view would keep all logits of this forward in memory.
      rows.whole_prompts[i]->logits_V =
          logits_BV.select(0, static_cast<int64_t>(rows.answers + i)).clone();
    }
    if (rows.answers == 0) return;
    const std::vector<Choice> chosen = Choose(choices);
    std::vector<Running> still;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (!Take(running_[i], chosen[i])) still.push_back(running_[i]);
    }
    running_ = std::move(still);
  }

  // Computes whole prompts with sequence-parallel attention over the ranks that share them. A
  // forward has up to kPromptRows rows per rank, or one longer prompt.
  void RunPrompts() {
    const at::NoGradGuard no_grad;
    const int rank = spread_->ranks->rank();
    std::vector<Prompt*> some;
    std::vector<int64_t> ids, lengths, lengths_of_rows, keys, states;
    for (Prompt& prompt : prompts_) {
      const std::vector<int64_t>& of_prompt = given_[prompt.number].ids;
      if (prompt.logits_V.defined()) continue;
      const size_t most = static_cast<size_t>(kPromptRows) * spread_->ranks->size();
      if (!some.empty() && ids.size() + of_prompt.size() > most) break;
      some.push_back(&prompt);
      ids.insert(ids.end(), of_prompt.begin(), of_prompt.end());
      lengths.push_back(static_cast<int64_t>(of_prompt.size()));
      lengths_of_rows.insert(lengths_of_rows.end(), lengths.back(), lengths.back());
      keys.push_back(prompt.sequence.keys);
      states.push_back(prompt.sequence.state);
      prompt.sequence.tokens = lengths.back();
    }
    if (some.empty() && options_.lockstep == nullptr) return;
    const auto layout = base::ValueOrThrow(comm::Layout::Create(
        lengths, spread_->attention->Divide(lengths), attention::CausalTileArea));
    std::shared_ptr<attention::PlannedAttention> plan =
        base::ValueOrThrow(spread_->attention->Plan(layout));
    cache_->BeginPrompts(std::move(plan), layout->spans(rank), keys, lengths);
    std::shared_ptr<mixers::PlannedMixing> mixing;
    if (mixing_ != nullptr) {
      mixing = std::make_shared<mixers::EndStates>(
          mixers::PlanMixing(layout, spread_->ranks, spread_->mixing), layout, spread_->ranks,
          [this, states](int64_t layer, const mixers::DocumentEnds& ends) {
            mixing_->Put(layer, states, ends.last_DRC, ends.state_DHVK);
          });
    }
    const auto cut = [&](const std::vector<int64_t>& stream) {
      return layout->Cut(base::ToDevice(stream, at::kCPU), rank);
    };
    const at::Tensor hidden_TD =
        Hidden(cut(ids), layout->Cut(comm::PositionsInDocuments(lengths), rank),
               cut(lengths_of_rows), mixing, /*few=*/false);
    const at::Tensor logits_BV = Logits(LastRows(*layout, hidden_TD));
    for (size_t i = 0; i < some.size(); ++i)
      some[i]->logits_V = logits_BV.select(0, static_cast<int64_t>(i)).clone();
  }

  // Returns the last row of every prompt, on every rank.
  at::Tensor LastRows(const comm::Layout& layout, const at::Tensor& hidden_TD) const {
    comm::SpansOfRanks ends(layout.ranks());
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      for (size_t d = 0; d < layout.lengths().size(); ++d)
        ends[rank].push_back(
            {static_cast<int64_t>(d), layout.lengths()[d] - 1, layout.lengths()[d]});
    }
    const auto map =
        std::make_shared<const comm::RowMap>(comm::SpansOf(layout), ends, spread_->ranks->rank());
    return comm::MoveRows({{hidden_TD, map, nullptr}}, spread_->ranks)[0];
  }

  at::Tensor Hidden(const at::Tensor& ids_T, const at::Tensor& positions_T,
                    const at::Tensor& lengths_T, std::shared_ptr<mixers::PlannedMixing> mixing,
                    bool few) {
    const ForwardOptions options{.lengths_T = lengths_T,
                                 .mixing = std::move(mixing),
                                 .hooks = {.after = options_.after},
                                 .products = Products(few)};
    ++report_.forwards;
    report_.rows += ids_T.size(0);
    return model_.Forward(ids_T, positions_T, cache_, options).hidden_TD;
  }

  // Returns the logits [B, V] in fp32 (fp64 for fp64), on the CPU.
  at::Tensor Logits(const at::Tensor& hidden_BD) const {
    const base::MemoryScope memory(base::MemoryPart::kLogits);
    const kernels::ProductScope scope(Products(/*few=*/true));
    return NextLogits(model_, hidden_BD).to(at::kCPU);
  }

  kernels::ProductChoice Products(bool few) const {
    kernels::ProductChoice products = model_.options().products;
    products.few_rows = few;
    return products;
  }

  Transformer& model_;
  const absl::Span<const RolloutPrompt> given_;
  const RolloutOptions& options_;
  const SpreadSequences* const spread_;  // null: sequences are not shared between ranks
  const std::shared_ptr<PagedCache> cache_;
  std::shared_ptr<mixers::BatchMixing> mixing_;  // null if all layers are softmax attention
  size_t next_prompt_ = 0;
  std::deque<Prompt> prompts_;
  std::vector<Running> running_;
  std::vector<std::vector<Answer>> made_;
  RolloutReport report_;
};

// Whether any of `ranks` has work left. `mine` is this rank's status; an error on any rank is
// returned on all ranks.
absl::StatusOr<bool> AnyLeft(comm::Communicator* ranks, const absl::Status& mine, bool left) {
  if (ranks == nullptr) {
    RETURN_IF_ERROR(mine);
    return left;
  }
  at::Tensor counts = at::tensor({left ? 1 : 0, mine.ok() ? 0 : 1}, at::kLong);
  RETURN_IF_ERROR(ranks->AllReduceSum(counts));
  RETURN_IF_ERROR(mine);
  const int64_t failed = counts[1].item<int64_t>();
  if (failed > 0)
    return absl::AbortedError(absl::StrCat(failed,
                                           failed == 1 ? " rank that runs" : " ranks that run",
                                           " together with this one failed; their logs say why"));
  return counts[0].item<int64_t>() > 0;
}

absl::StatusOr<std::vector<std::vector<Answer>>> RunAll(Transformer& model,
                                                        absl::Span<const RolloutPrompt> prompts,
                                                        const RolloutOptions& options,
                                                        RolloutReport* report) {
  absl::Status status = Validate(options, prompts, model);
  if (options.spread.has_value()) {
    const absl::Status same = CheckSame(*options.spread->ranks, prompts, options);
    if (status.ok()) status = same;
  }
  if (!status.ok() && options.lockstep == nullptr) return status;
  const KeptCasts casts(model, options.keep_casts);
  Scheduler scheduler(model, status.ok() ? prompts : absl::Span<const RolloutPrompt>(), options);
  while (true) {
    ASSIGN_OR_RETURN(const bool left,
                     AnyLeft(options.lockstep.get(), status, !scheduler.finished()));
    if (!left) break;
    status = base::TryTorch([&] { scheduler.Step(); });
  }
  if (report != nullptr) scheduler.Fill(*report);
  return scheduler.TakeAnswers();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report) {
  auto answers = RunAll(model, prompts, options, report);
  if (!answers.ok()) return base::WithContext(answers.status(), "rollout");
  return answers;
}

}  // namespace moonring::model
